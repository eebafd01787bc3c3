"""Makes the pictures of the browser: stills and a tour as SVG, and the tour as an asciicast.

    python3 assets/screens.py --bin target/fast/nra

Needs tmux. The archive that is shown is made of this repository.
"""

import argparse
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/tui"))
from run import Terminal  # noqa: E402

WIDTH, HEIGHT = 110, 30
# Width and height of a character in the pictures.
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
GROUND, FRONT = "#16181f", "#d8dae2"
SIXTEEN = ["#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dae2",
           "#5c6370", "#e88088", "#a9d18e", "#ecd08f", "#82c0f5", "#d291e4", "#7cc9d3", "#ffffff"]


def color(codes):
    """Takes a colour from the front of a list of SGR numbers behind 38 or 48."""
    if codes[0] == 2:
        red, green, blue = codes[1:4]
        del codes[:4]
        return "#%02x%02x%02x" % (red, green, blue)
    number = codes[1]
    del codes[:2]
    if number < 16:
        return SIXTEEN[number]
    if number >= 232:
        return "#%02x%02x%02x" % ((8 + (number - 232) * 10,) * 3)
    number -= 16
    return "#%02x%02x%02x" % tuple(0 if part == 0 else 55 + 40 * part for part in (number // 36, number // 6 % 6, number % 6))


def styled(line):
    """Divides a line with escape sequences into pieces of text with their style."""
    style = {}
    for number, part in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if number % 2 == 0:
            if part:
                yield part, dict(style)
            continue
        codes = [int(code or 0) for code in part.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                style.clear()
            elif code in (1, 2, 4, 7):
                style[{1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code]] = True
            elif code in (38, 48):
                style["front" if code == 38 else "back"] = color(codes)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                style["front"] = SIXTEEN[code - 30 if code < 40 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                style["back"] = SIXTEEN[code - 40 if code < 50 else code - 92]
            elif code == 39:
                style.pop("front", None)
            elif code == 49:
                style.pop("back", None)


def cells(text):
    """How many columns text takes; wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def drawn(screen):
    """Draws a screen as elements of SVG."""
    parts = []
    for row, line in enumerate(screen.split("\n")):
        column = 0
        for text, style in styled(line):
            width = cells(text)
            front, back = style.get("front", FRONT), style.get("back")
            if style.get("reverse"):
                front, back = back or GROUND, front
            x, y = column * CELL_WIDTH, row * CELL_HEIGHT
            if back:
                parts.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (x, y, width * CELL_WIDTH + .4, CELL_HEIGHT, back))
            if text.strip():
                more = ' font-weight="bold"' if style.get("bold") else ""
                more += ' opacity=".6"' if style.get("dim") else ""
                more += ' text-decoration="underline"' if style.get("underline") else ""
                parts.append('<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s>%s</text>' % (
                    x, y + CELL_HEIGHT - 5, width * CELL_WIDTH, front, more, html.escape(text)))
            column += width
    return "".join(parts)


def picture(body, more=""):
    width, height = WIDTH * CELL_WIDTH + 24, HEIGHT * CELL_HEIGHT + 24
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,Menlo,Consolas,monospace" '
            'font-size="14" xml:space="preserve">%s<rect width="100%%" height="100%%" rx="8" fill="%s"/>'
            '<g transform="translate(12 12)">%s</g></svg>\n') % (width, height, more, GROUND, body)


def tour_picture(frames):
    """Draws frames one after the other, each as long as it was seen."""
    whole = sum(seconds for _, seconds in frames)
    rules, body, start = [], [], 0.0
    for number, (screen, seconds) in enumerate(frames):
        first, last = 100 * start / whole, 100 * (start + seconds) / whole
        rules.append("@keyframes f%d{0%%,%.3f%%{visibility:hidden}%.3f%%,%.3f%%{visibility:visible}%.3f%%,100%%{visibility:hidden}}"
                     "#f%d{visibility:hidden;animation:f%d %.2fs step-end infinite}" % (
                         number, max(first - .001, 0), first, last - .002, last - .001, number, number, whole))
        body.append('<g id="f%d">%s</g>' % (number, drawn(screen)))
        start += seconds
    return picture("".join(body), "<style>%s</style>" % "".join(rules))


def cast(frames):
    """Writes frames as an asciicast of version 2."""
    lines = [json.dumps({"version": 2, "width": WIDTH, "height": HEIGHT, "title": "nra browse"})]
    at = 0.0
    for screen, seconds in frames:
        lines.append(json.dumps([round(at, 3), "o", "\x1b[0m\x1b[H\x1b[2J" + screen.replace("\n", "\x1b[0m\r\n")], ensure_ascii=False))
        at += seconds
    lines.append(json.dumps([round(at, 3), "o", ""]))
    return "\n".join(lines) + "\n"


class Camera:
    """Presses keys and takes a picture after each."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.frames = []

    def take(self, seconds=1.2):
        # Until nothing moves any more.
        before, since = None, time.monotonic()
        while time.monotonic() - since < 5:
            screen = self.terminal.tmux("capture-pane", "-p", "-e").rstrip("\n")
            if screen == before:
                break
            before = screen
            time.sleep(0.3)
        self.frames.append((before, seconds))
        return before

    def press(self, *keys, seconds=1.2):
        for key in keys:
            self.terminal.keys(key)
        return self.take(seconds)

    def type(self, text):
        for at in range(0, len(text), 4):
            self.terminal.types(text[at:at + 4])
            self.take(0.5)
        return self.take(1.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    nra = str(pathlib.Path(parser.parse_args().bin).resolve())
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        archive = directory / "nra-source.nra"
        inputs = [name for name in ("README.md", "CHANGELOG.md", "Cargo.toml", "assets/sample", "docs", "src", "tests")
                  if (HERE.parent / name).exists()]
        subprocess.run([nra, "pack", *inputs, "-o", str(archive), "-q", "--no-owner"], check=True, cwd=HERE.parent)
        (directory / "bin").mkdir()
        (directory / "bin/nra").symlink_to(nra)
        terminal = Terminal(directory, WIDTH, HEIGHT)
        try:
            terminal.run("PATH=$PWD/bin:$PATH COLORTERM=truecolor COLORFGBG='15;0'; export PATH COLORTERM COLORFGBG; clear")
            terminal.sees("ready>")
            camera = Camera(terminal)
            terminal.run("nra nra-source.nra")
            terminal.sees("entries")
            camera.take(2)
            camera.press("/")
            camera.type("treemap")
            still = camera.press("Enter", seconds=2.5)
            (HERE / "browse.svg").write_text(picture(drawn(still)))
            camera.press("Space")
            camera.press("h")
            camera.press("h")
            camera.press("b")
            map_still = camera.press("b", seconds=2.5)
            (HERE / "browse-map.svg").write_text(picture(drawn(map_still)))
            camera.press("b")
            camera.press("F")
            camera.type("*.rs size>12k has:proptest")
            found = camera.press("Enter", seconds=2.5)
            (HERE / "browse-find.svg").write_text(picture(drawn(found)))
            camera.press("A")
            camera.press("e", seconds=2)
            terminal.keys("C-u")
            camera.type("out")
            camera.press("Enter", seconds=2.5)
            (HERE / "browse-tour.svg").write_text(tour_picture(camera.frames))
            (HERE / "browse.cast").write_text(cast(camera.frames))
            terminal.keys("Q")
            terminal.is_restored()
        finally:
            terminal.close()


if __name__ == "__main__":
    main()
