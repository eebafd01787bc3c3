"""Draws the pictures of the browser as SVG from recordings of a terminal.

    python3 assets/screens.py                         # draw the recordings that are here
    python3 assets/screens.py --bin target/release/nra   # record them again first

Recording needs tmux and shows an archive of this repository. A recording is an asciicast
(version 2) that holds one whole screen per event. A marker event names a still picture of the
preceding screen. A recording of more than one screen also becomes an animated tour.

The pictures hold in every viewer, also as an `<img>`, because a glyph's place depends neither on
the font nor on white space: no text contains a space, every character has an x position of its
own, and lines and bars are shapes.
"""

import argparse
import html
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent

# Terminal sizes. The narrow one is for small screens, where a wide picture would be illegible.
WIDE, NARROW = (110, 30), (46, 22)

# Pixels of a character cell. Monospaced glyphs are 0.6 of the font size wide.
FONT_SIZE, CELL_WIDTH, CELL_HEIGHT = 15, 9, 19
BASELINE, MARGIN = 14, 12

BACKGROUND, FOREGROUND, FRAME = "#16181f", "#d8dae2", "#3b4048"
PALETTE = ["#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dae2",
           "#5c6370", "#e88088", "#a9d18e", "#ecd08f", "#82c0f5", "#d291e4", "#7cc9d3", "#ffffff"]

# Directions in which a box-drawing character has a line.
BOX_LINES = {"─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "rud",
             "┤": "lud", "┬": "lrd", "┴": "lru", "┼": "lrud", "╭": "rd", "╮": "ld", "╰": "ru",
             "╯": "lu"}

# Part of the cell that a block element fills: left, top, width, height.
BLOCKS = {"█": (0, 0, 1, 1), "▀": (0, 0, 1, .5), "▄": (0, .5, 1, .5), "▐": (.5, 0, .5, 1)}
BLOCKS |= {character: (0, 0, eighths / 8, 1) for eighths, character in enumerate("▏▎▍▌▋▊▉", 1)}


def parse_color(codes):
    """Removes a colour from the front of the SGR codes that follow 38 or 48 and returns it."""
    if codes[0] == 2:
        red, green, blue = codes[1:4]
        del codes[:4]
        return "#%02x%02x%02x" % (red, green, blue)
    index = codes[1]
    del codes[:2]
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        return "#%02x%02x%02x" % ((8 + (index - 232) * 10,) * 3)
    index -= 16
    levels = (index // 36, index // 6 % 6, index % 6)
    return "#%02x%02x%02x" % tuple(0 if level == 0 else 55 + 40 * level for level in levels)


def apply_sgr(style, codes):
    """Applies the codes of one SGR sequence to a style."""
    while codes:
        code = codes.pop(0)
        if code == 0:
            style.clear()
        elif code in (1, 2, 4, 7):
            style[{1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code]] = True
        elif code in (38, 48):
            style["foreground" if code == 38 else "background"] = parse_color(codes)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["foreground"] = PALETTE[code - 30 if code < 40 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["background"] = PALETTE[code - 40 if code < 50 else code - 92]
        elif code == 39:
            style.pop("foreground", None)
        elif code == 49:
            style.pop("background", None)


def parse_screen(screen):
    """Returns the rows of a screen, each a list of (text, style) runs.

    A style stays in force at the end of a row: tmux writes only the changes.
    """
    rows, style = [], {}
    for line in screen.split("\n"):
        row = []
        for index, part in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
            if index % 2:
                apply_sgr(style, [int(code or 0) for code in part.split(";")])
            elif part:
                row.append((part, dict(style)))
        rows.append(row)
    return rows


def plain_text(screen):
    """Returns a screen without escape sequences."""
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def cell_count(character):
    """Returns the number of columns of a character: 0, 1 or 2."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def with_columns(text, column):
    """Yields each character of text, with the combining marks that follow it, and its column."""
    cluster, start = "", column
    for character in text:
        if cell_count(character) == 0:
            cluster += character
            continue
        if cluster:
            yield cluster, start
        cluster, start = character, column
        column += cell_count(character)
    if cluster:
        yield cluster, start


def drawing_method(cluster):
    """Returns how a character is drawn; neighbours that share the method are drawn together."""
    if cluster == " ":
        return "space"
    if cluster in BOX_LINES:
        return "box"
    if cluster in BLOCKS:
        return "block"
    # Positions are counted in UTF-16 units: only simple characters share one list of them.
    simple = len(cluster) == 1 and ord(cluster) < 0x10000 and cell_count(cluster) == 1
    return "text" if simple else "cluster"


def draw_box(clusters):
    """Returns the path of box-drawing characters in the row at y = 0."""
    middle, path, line_start = CELL_HEIGHT / 2, "", None
    for cluster, column in clusters:
        x, lines = column * CELL_WIDTH, BOX_LINES[cluster]
        center = x + CELL_WIDTH / 2
        # A horizontal line is drawn once, over all characters that it crosses.
        if "l" in lines and line_start is None:
            line_start = x
        if "r" in lines:
            line_start = center if line_start is None else line_start
        elif line_start is not None:
            path += "M%g %gH%g" % (line_start, middle, center)
            line_start = None
        if "u" in lines or "d" in lines:
            top = 0 if "u" in lines else middle
            path += "M%g %gV%g" % (center, top, CELL_HEIGHT if "d" in lines else middle)
        line_end = x + CELL_WIDTH
    if line_start is not None:
        path += "M%g %gH%g" % (line_start, middle, line_end)
    return path


def draw_run(text, style, column):
    """Returns the SVG elements of a run of text in the row at y = 0."""
    foreground = style.get("foreground", FOREGROUND)
    background = style.get("background")
    if style.get("reverse"):
        foreground, background = background or BACKGROUND, foreground
    look = ' opacity=".6"' if style.get("dim") else ""
    elements = []
    width = sum(map(cell_count, text)) * CELL_WIDTH
    if background:
        elements.append('<rect x="%d" width="%d" height="%d" fill="%s"/>' % (
            column * CELL_WIDTH, width, CELL_HEIGHT, background))
    if style.get("underline"):
        elements.append('<path d="M%d %gh%d" stroke="%s"%s/>' % (
            column * CELL_WIDTH, BASELINE + 2.5, width, foreground, look))
    by_method = itertools.groupby(
        with_columns(text, column), key=lambda item: drawing_method(item[0]))
    for method, clusters in by_method:
        clusters = list(clusters)
        if method == "space":
            continue
        if method == "box":
            elements.append('<path d="%s" stroke="%s"%s/>' % (
                draw_box(clusters), foreground, look))
        elif method == "block":
            for block, same in itertools.groupby(clusters, key=lambda item: item[0]):
                same = list(same)
                left, top, wide, high = BLOCKS[block]
                # Full blocks join to one bar; others are drawn one by one.
                bars = [(same[0][1], len(same))] if wide == 1 else [(at, wide) for _, at in same]
                for start, length in bars:
                    elements.append('<rect x="%g" y="%g" width="%g" height="%g" fill="%s"%s/>' % (
                        (start + left) * CELL_WIDTH, top * CELL_HEIGHT, length * CELL_WIDTH,
                        high * CELL_HEIGHT, foreground, look))
        else:
            weight = ' font-weight="bold"' if style.get("bold") else ""
            for group in [clusters] if method == "text" else [[cluster] for cluster in clusters]:
                elements.append('<text x="%s" y="%d" fill="%s"%s%s>%s</text>' % (
                    " ".join("%d" % (at * CELL_WIDTH) for _, at in group), BASELINE, foreground,
                    look, weight,
                    html.escape("".join(cluster for cluster, _ in group), quote=False)))
    return "".join(elements)


def draw_row(row):
    """Returns the SVG elements of a row at y = 0."""
    elements, column = "", 0
    for text, style in row:
        elements += draw_run(text, style, column)
        column += sum(map(cell_count, text))
    return elements


def place_row(number, elements, attributes=""):
    """Returns a group that moves the elements of a row to their height."""
    return '<g transform="translate(0 %d)"%s>%s</g>' % (
        number * CELL_HEIGHT, attributes, elements) if elements else ""


def picture(size, body, head=""):
    """Returns an SVG file of a terminal of size columns and rows."""
    width, height = size[0] * CELL_WIDTH + 2 * MARGIN, size[1] * CELL_HEIGHT + 2 * MARGIN
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
        'font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="%d">'
        '%s<rect x=".5" y=".5" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>'
        '<g transform="translate(%d %d)" shape-rendering="crispEdges">%s</g></svg>\n') % (
            width, height, width, height, FONT_SIZE, head, width - 1, height - 1, BACKGROUND,
            FRAME, MARGIN, MARGIN, body)


def draw_still(size, screen):
    """Returns a picture of one screen."""
    rows = enumerate(parse_screen(screen))
    return picture(size, "".join(place_row(number, draw_row(row)) for number, row in rows))


def draw_tour(size, screens, still):
    """Returns an animated picture of (screen, seconds) pairs.

    Each different row is drawn once and is visible while a screen shows it. Where nothing is
    animated, by choice or by the viewer, the picture is the screen number `still`.
    """
    shown_in = {}
    for index, (screen, _) in enumerate(screens):
        for number, row in enumerate(parse_screen(screen)):
            elements = draw_row(row)
            if elements:
                shown_in.setdefault((number, elements), []).append(index)
    starts = list(itertools.accumulate((seconds for _, seconds in screens), initial=0))
    names, rules, body = {}, [], []
    for (number, elements), indices in shown_in.items():
        if len(indices) == len(screens):
            body.append(place_row(number, elements))
            continue
        name = names.setdefault(tuple(indices), "t%d" % len(names))
        hidden = "" if still in indices else ' visibility="hidden"'
        body.append(place_row(number, elements, ' class="%s"%s' % (name, hidden)))
    for indices, name in names.items():
        # With step-end, a keyframe holds until the next one.
        steps, visible = "", None
        for index in range(len(screens)):
            if (index in indices) != visible:
                visible = index in indices
                steps += "%.3f%%{visibility:%s}" % (
                    100 * starts[index] / starts[-1], "visible" if visible else "hidden")
        rules.append("@keyframes %s{%s}.%s{animation-name:%s}" % (name, steps, name, name))
    style = ("<style>g{animation:%gs step-end infinite}%s"
             "@media(prefers-reduced-motion:reduce){g{animation:none!important}}</style>") % (
                 starts[-1], "".join(rules))
    return picture(size, "".join(body), style)


CLEAR = "\x1b[0m\x1b[H\x1b[2J"


def write_recording(path, size, screens):
    """Writes (screen, seconds, name of a still or None) triples as an asciicast."""
    lines = [{"version": 2, "width": size[0], "height": size[1], "title": "nra browse"}]
    at = 0.0
    for screen, seconds, name in screens:
        lines.append([round(at, 3), "o", CLEAR + screen.replace("\n", "\r\n")])
        if name:
            lines.append([round(at, 3), "m", name])
        at += seconds
    lines.append([round(at, 3), "o", ""])
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_recording(path):
    """Returns the size and the (screen, seconds, name of a still or None) triples."""
    header, *events = map(json.loads, path.read_text().splitlines())
    screens = []
    for at, kind, data in events:
        if kind == "m":
            screens[-1][2] = data
            continue
        if screens:
            screens[-1][1] = at - screens[-1][1]
        if data:
            screens.append([data.removeprefix(CLEAR).replace("\r\n", "\n"), at, None])
    return (header["width"], header["height"]), [tuple(screen) for screen in screens]


def draw_recording(path):
    """Returns the pictures of a recording by file name."""
    size, screens = read_recording(path)
    pictures = {"%s.svg" % name: draw_still(size, screen) for screen, _, name in screens if name}
    if len(screens) > 1:
        still = next((index for index, screen in enumerate(screens) if screen[2]), 0)
        pairs = [(screen, seconds) for screen, seconds, _ in screens]
        pictures["%s-tour.svg" % path.stem] = draw_tour(size, pairs, still)
    return pictures


class Recorder:
    """Presses keys in a terminal and records the screen after each."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.screens = []

    def record(self, seconds=1.2, name=None):
        """Records the screen once it has stopped changing."""
        previous, end = None, time.monotonic() + 5
        while time.monotonic() < end:
            screen = self.terminal.tmux("capture-pane", "-p", "-e").rstrip("\n")
            if screen == previous:
                break
            previous = screen
            time.sleep(0.3)
        self.screens.append((screen, seconds, name))

    def press(self, *keys, seconds=1.2, name=None):
        self.terminal.keys(*keys)
        self.record(seconds, name)

    def type(self, text):
        for start in range(0, len(text), 4):
            self.terminal.types(text[start:start + 4])
            self.record(0.5)
        self.record()


def record_tour(recorder):
    recorder.record(2)
    recorder.press("/")
    recorder.type("treemap")
    recorder.press("Enter", seconds=2.5, name="browse")
    recorder.press("Space")
    recorder.press("h")
    recorder.press("h")
    recorder.press("b")
    recorder.press("b", seconds=2.5, name="browse-map")
    recorder.press("b")
    recorder.press("F")
    recorder.type("*.rs size>12k has:proptest")
    recorder.press("Enter", seconds=2.5, name="browse-find")
    recorder.press("A")
    recorder.press("e", seconds=2)
    recorder.terminal.keys("C-u")
    recorder.type("out")
    recorder.press("Enter", seconds=2.5)


def record_narrow(recorder):
    recorder.terminal.keys("/")
    recorder.terminal.types("treemap")
    recorder.terminal.sees("/treemap.rs")
    recorder.terminal.keys("Enter", "b")
    recorder.terminal.sees("█")
    recorder.record(name="browse-narrow")


def record(nra, name, size, story):
    """Runs a story in the browser and writes its recording."""
    sys.path.insert(0, str(HERE.parent / "tests/tui"))
    from run import Terminal

    with tempfile.TemporaryDirectory() as work:
        directory = pathlib.Path(work)
        inputs = [name for name in ("README.md", "CHANGELOG.md", "Cargo.toml", "assets/sample",
                                    "docs", "src", "tests") if (HERE.parent / name).exists()]
        subprocess.run([nra, "pack", *inputs, "-o", directory / "nra-source.nra", "-q",
                        "--no-owner"], check=True, cwd=HERE.parent)
        (directory / "bin").mkdir()
        (directory / "bin/nra").symlink_to(nra)
        terminal = Terminal(directory, *size)
        try:
            terminal.run("PATH=$PWD/bin:$PATH COLORTERM=truecolor COLORFGBG='15;0'; "
                         "export PATH COLORTERM COLORFGBG; clear")
            terminal.sees("ready>")
            terminal.run("nra nra-source.nra")
            terminal.sees("CHANGELOG.md")
            recorder = Recorder(terminal)
            story(recorder)
            write_recording(HERE / (name + ".cast"), size, recorder.screens)
            terminal.keys("Q")
            terminal.is_restored()
        finally:
            terminal.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", help="record with this nra before drawing")
    nra = parser.parse_args().bin
    if nra:
        nra = pathlib.Path(nra).resolve()
        record(nra, "browse", WIDE, record_tour)
        record(nra, "browse-narrow", NARROW, record_narrow)
    for path in sorted(HERE.glob("*.cast")):
        for name, text in draw_recording(path).items():
            (HERE / name).write_text(text)


if __name__ == "__main__":
    main()
