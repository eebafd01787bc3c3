"""Checks in Chromium that pages with pictures look right.

    pip install -r tests/pictures/requirements.txt
    python3 tests/pictures/check.py [--out DIR]                # the pages and all pictures
    python3 tests/pictures/check.py --picture FILE.svg ...     # these pictures alone

Needs chromium and the font DejaVu Sans Mono (Debian: chromium fonts-dejavu-core).

Pictures: every glyph sits in its terminal cell, stills show what was recorded, nothing depends on
white space, scripts or other files, and the picture is not blank when it is an `<img>`.
Pages: at 1280 and 375 pixels, light and dark, all pictures load, nothing but tables and code
scrolls sideways, and links to files lead somewhere. Screenshots are written to DIR.
"""

import argparse
import base64
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "assets"))
import screens  # noqa: E402

PAGES = ["README.md", "docs/README.md", "docs/tui.md"]
WIDTHS, SCHEMES = (1280, 375), ("light", "dark")
SVG = "{http://www.w3.org/2000/svg}"

# A glyph may start this part of a cell beside its cell, and a run of text may be this much wider
# or narrower than its cells.
START_TOLERANCE, WIDTH_TOLERANCE = 0.1, 0.02

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--virtual-time-budget=5000"]

# Writes the position of every glyph, in user units of the picture, as JSON.
MEASURE_PICTURE = """
function measure(svg) {
  const toPicture = svg.getScreenCTM().inverse();
  const texts = [...svg.querySelectorAll("text")].map(text => {
    const matrix = toPicture.multiply(text.getScreenCTM());
    const at = point => {
      const moved = new DOMPoint(point.x, point.y).matrixTransform(matrix);
      return [moved.x, moved.y];
    };
    const glyphs = [];
    for (let i = 0; i < text.getNumberOfChars(); i++)
      glyphs.push([at(text.getStartPositionOfChar(i)), at(text.getEndPositionOfChar(i))]);
    return {content: text.textContent, glyphs};
  });
  return {fontSize: parseFloat(getComputedStyle(svg).fontSize),
          width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height, texts};
}
// The part of the pixels that differ from the background when the picture is an <img>.
async function coverage(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  let different = 0;
  for (let i = 0; i < pixels.length; i += 4)
    different += Math.abs(pixels[i] - pixels[4 * 40 * canvas.width + 4 * 4]) > 32;
  return 4 * different / pixels.length;
}
window.onload = async () => {
  const result = measure(document.querySelector("svg"));
  result.coverage = await coverage(document.body.dataset.source);
  document.body.innerHTML = "";
  document.body.dataset.result = JSON.stringify(result);
};
"""

# Close to the style of pages on GitHub.
PAGE_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --ground: #fff; --line: #d1d9e0;
        --code: #818b981f; --block: #f6f8fa; --link: #0969da; }
@media (prefers-color-scheme: dark) {
  :root { --text: #f0f6fc; --ground: #0d1117; --line: #3d444d; --code: #656c7633;
          --block: #151b23; --link: #4493f8; }
}
body { margin: 0 auto; padding: 32px; max-width: 838px; color: var(--text);
       background: var(--ground); overflow-wrap: break-word;
       font: 16px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
@media (max-width: 600px) { body { padding: 16px; } }
h1, h2 { border-bottom: 1px solid var(--line); padding-bottom: .3em; }
h1, h2, h3 { line-height: 1.25; margin: 24px 0 16px; }
p, ul, pre, table { margin: 0 0 16px; }
ul { padding-left: 2em; }
a { color: var(--link); }
code { font: 85% ui-monospace, monospace; background: var(--code); padding: .2em .4em;
       border-radius: 6px; }
pre { background: var(--block); padding: 16px; overflow: auto; border-radius: 6px; }
pre code { background: none; padding: 0; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%;
        overflow: auto; }
th, td { border: 1px solid var(--line); padding: 6px 13px; }
img { max-width: 100%; box-sizing: content-box; }
"""

# Writes the size of the page in the frame and of its pictures as JSON.
MEASURE_PAGE = """
window.onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  const result = {
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    width: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight,
    pictures: [...page.images].map(image => {
      const box = image.getBoundingClientRect();
      return {source: decodeURIComponent(image.currentSrc.split("/").pop()), alt: image.alt,
              loaded: image.complete && image.naturalWidth > 0, left: box.left, right: box.right};
    })};
  document.body.dataset.result = JSON.stringify(result);
};
"""


class Browser:
    """Headless Chromium with a new profile for each page."""

    def __init__(self, program, work):
        self.program = program
        self.work = pathlib.Path(work)
        self.runs = 0

    def run(self, page, *arguments):
        """Opens the HTML text `page` and returns what Chromium prints."""
        self.runs += 1
        path = self.work / ("%d.html" % self.runs)
        path.write_text(page)
        done = subprocess.run(
            [self.program, *FLAGS, "--user-data-dir=%s" % (self.work / str(self.runs)),
             *arguments, path.as_uri()], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise SystemExit("chromium failed:\n" + done.stderr)
        return done.stdout

    def result(self, page, *arguments):
        """Opens a page and returns the JSON in the attribute data-result of its body."""
        found = re.search(r'data-result="([^"]*)"', self.run(page, "--dump-dom", *arguments))
        if not found:
            raise SystemExit("the measuring page has no result")
        return json.loads(html.unescape(found[1]))


def check_source(text):
    """Yields problems of a picture that show in its source."""
    tree = xml.etree.ElementTree.fromstring(text)
    for element in tree.iter():
        if element.tag in (SVG + "script", SVG + "foreignObject", SVG + "image", SVG + "use"):
            yield "element <%s>" % element.tag.removeprefix(SVG)
        for name in element.attrib:
            if name.endswith("href") or name.startswith("on"):
                yield "attribute %s" % name
        if element.tag == SVG + "text":
            content = "".join(element.itertext())
            if content != content.strip() or "  " in content:
                yield "text depends on white space: %r" % content
    if re.search(r"url\(|@import|@font-face", text):
        yield "reference to another file"


def check_glyphs(measured, still):
    """Yields problems with the places of glyphs; in a still, a cell has one glyph."""
    cell = 0.6 * measured["fontSize"]
    taken = {}
    for text in measured["texts"]:
        content, glyphs = text["content"], text["glyphs"]
        if len(glyphs) != len(content.encode("utf-16-le")) // 2:
            yield "%d of %d characters are drawn: %r" % (len(glyphs), len(content), content)
            continue
        first = (glyphs[0][0][0] - screens.MARGIN) / cell
        column = round(first)
        unit = 0
        for character in content:
            start, y = glyphs[unit][0]
            at = (start - screens.MARGIN) / cell
            if screens.cell_count(character) and abs(at - column) > START_TOLERANCE:
                yield "%r is at column %.2f instead of %d: %r" % (character, at, column, content)
                break
            if screens.cell_count(character) and character != " ":
                if still and taken.setdefault((round(y), column), character) != character:
                    yield "two glyphs at column %d: %r" % (column, content)
            column += screens.cell_count(character)
            unit += len(character.encode("utf-16-le")) // 2
        cells = sum(map(screens.cell_count, content))
        width = (glyphs[-1][1][0] - glyphs[0][0][0]) / cell
        if abs(width - cells) > WIDTH_TOLERANCE * cells:
            yield "%.2f columns wide instead of %d: %r" % (width, cells, content)
        edges = [x for glyph in glyphs for x, _ in glyph]
        if min(edges) < 0 or max(edges) > measured["width"] or not (
                0 < glyphs[0][0][1] < measured["height"]):
            yield "outside the picture: %r" % content


def shown_text(measured):
    """Returns the rows of a still as its glyphs show them."""
    cell, rows = 0.6 * measured["fontSize"], {}
    for text in measured["texts"]:
        unit = 0
        for character in text["content"]:
            x, y = text["glyphs"][unit][0]
            row = round((y - screens.MARGIN - screens.BASELINE) / screens.CELL_HEIGHT)
            rows.setdefault(row, {})[round((x - screens.MARGIN) / cell)] = character
            unit += len(character.encode("utf-16-le")) // 2
    return rows


def recorded_text(screen):
    """Returns the rows of a recorded screen without what pictures draw as shapes."""
    rows = {}
    for number, line in enumerate(screens.plain_text(screen).split("\n")):
        for cluster, column in screens.with_columns(line, 0):
            if screens.drawing_method(cluster) in ("text", "cluster"):
                rows.setdefault(number, {})[column] = cluster[0]
    return rows


def check_picture(browser, text, screen=None, still=True):
    """Yields the problems of a picture; `screen` is what a still was made of."""
    yield from check_source(text)
    source = "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
    measured = browser.result(
        '<!doctype html><meta charset="utf-8"><script>%s</script><body data-source="%s">%s' % (
            MEASURE_PICTURE, source, text))
    yield from check_glyphs(measured, still)
    if measured["coverage"] < 0.01:
        yield "blank as an <img>"
    if screen is not None:
        shown, recorded = shown_text(measured), recorded_text(screen)
        for row in sorted(set(shown) | set(recorded)):
            if shown.get(row) != recorded.get(row):
                yield "row %d differs from the recording" % row


def check_pictures(browser):
    """Yields (file, problem) for all pictures in assets."""
    unknown = set((ROOT / "assets").glob("*.svg"))
    for path in sorted((ROOT / "assets").glob("*.cast")):
        recorded = {name: screen for screen, _, name in screens.read_recording(path)[1] if name}
        for name, text in screens.draw_recording(path).items():
            picture = ROOT / "assets" / name
            unknown.discard(picture)
            if not picture.exists() or picture.read_text() != text:
                yield name, "not the drawing of %s: run assets/screens.py" % path.name
                continue
            screen = recorded.get(picture.stem)
            for problem in check_picture(browser, text, screen, screen is not None):
                yield name, problem
    for picture in sorted(unknown):
        yield picture.name, "no recording"


def check_links(page, rendered):
    """Yields links and pictures of a page that lead to no file."""
    for target in re.findall(r'(?:href|src|srcset)="([^"#]+)', rendered):
        if not re.match(r"[a-z]+:", target) and not (page.parent / html.unescape(target)).exists():
            yield "no file '%s'" % target


def check_page(browser, page, out):
    """Yields problems of a Markdown page and writes its screenshots."""
    from markdown_it import MarkdownIt

    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(page.read_text())
    yield from check_links(page, rendered)
    inner = '<!doctype html><meta charset="utf-8"><base href="%s"><style>%s</style>%s' % (
        page.as_uri(), PAGE_STYLE, rendered)
    # Chromium opens no window of 375 pixels, so the page is in a frame.
    outer = ('<!doctype html><meta charset="utf-8"><script>%s</script><style>body{margin:0}'
             'iframe{border:0;display:block;width:%dpx;height:%dpx}</style>'
             '<iframe srcdoc="%s"></iframe>')
    for width in WIDTHS:
        for scheme in SCHEMES:
            where = "%d px, %s" % (width, scheme)
            flag = "--blink-settings=preferredColorScheme=%d" % SCHEMES[::-1].index(scheme)
            measured = browser.result(
                outer % (MEASURE_PAGE, width, 800, html.escape(inner)),
                flag, "--window-size=1280,800")
            if measured["dark"] != (scheme == "dark"):
                yield "%s: Chromium has the other colour scheme" % where
            if measured["width"] > width:
                yield "%s: the page is %d pixels wide" % (where, measured["width"])
            for picture in measured["pictures"]:
                if not picture["loaded"]:
                    yield "%s: '%s' does not load" % (where, picture["source"])
                if not picture["alt"]:
                    yield "%s: '%s' has no description" % (where, picture["source"])
                if picture["left"] < 0 or picture["right"] > width:
                    yield "%s: '%s' leaves the page" % (where, picture["source"])
            height = min(measured["height"], 12000)
            name = "%s-%d-%s.png" % (
                "-".join(page.relative_to(ROOT).with_suffix("").parts), width, scheme)
            browser.run(outer % ("", width, height, html.escape(inner)), flag,
                        "--screenshot=%s" % (out / name),
                        "--window-size=%d,%d" % (max(width, 500), height))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--out", default=str(ROOT / "target/pictures"),
                        help="directory for screenshots")
    parser.add_argument("--picture", nargs="+", metavar="FILE", help="check only these pictures")
    options = parser.parse_args()
    if not options.chromium:
        raise SystemExit("chromium not found")
    out = pathlib.Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    problems = []
    with tempfile.TemporaryDirectory() as work:
        browser = Browser(options.chromium, work)
        if options.picture:
            for name in options.picture:
                text = pathlib.Path(name).read_text()
                still = "@keyframes" not in text
                problems += [(name, each) for each in check_picture(browser, text, None, still)]
        else:
            problems += check_pictures(browser)
            for name in PAGES:
                if (ROOT / name).exists():
                    problems += [(name, each) for each in check_page(browser, ROOT / name, out)]
    for name, problem in problems[:100]:
        print("%s: %s" % (name, problem), file=sys.stderr)
    print("%d problems" % len(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
