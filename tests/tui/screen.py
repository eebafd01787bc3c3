"""A terminal that is looked at from inside: nra runs on a pseudo-terminal, what it sends is interpreted, pictures are decoded.

It knows what nra sends, and fails at anything else.
"""

import base64
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata
import zlib

LIMIT = 30.0
PLACEHOLDER = "\U0010eeee"
MODES = {"25": "cursor", "1049": "alternate", "2004": "paste", "1000": "mouse", "1002": "mouse", "1003": "mouse", "1006": "mouse", "1015": "mouse"}
SEQUENCE = re.compile(r"\x1b(?:\[(?P<private>[?>]?)(?P<numbers>[\d;:]*)(?P<final>[A-Za-z])|(?P<plain>[78=>])|\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
                      r"|P(?P<dcs>[^\x1b]*)\x1b\\|_G(?P<apc>[^\x1b]*)\x1b\\)", re.S)


class Picture:
    """A decoded picture: columns, rows, pixels as (r, g, b), row by row."""

    def __init__(self, protocol, width, height, pixels):
        self.protocol, self.width, self.height, self.pixels = protocol, width, height, pixels

    def at(self, x, y):
        return self.pixels[y * self.width + x]


def of_png(data):
    """Decodes the PNG files that nra sends: eight bits a channel, not interlaced."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, packed = 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if name == b"IHDR":
            width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and not interlaced
            channels = {0: 1, 2: 3, 4: 2, 6: 4}[kind]
        elif name == b"IDAT":
            packed += body
        at += 12 + length
    raw, stride = zlib.decompress(packed), width * channels
    before, pixels = bytearray(stride), []
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, corner = (row[x - channels], before[x - channels]) if x >= channels else (0, 0)
            up = before[x]
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(guess - value))
            row[x] = (row[x] + [0, left, up, (left + up) // 2, nearest][kind]) & 255
        for x in range(0, stride, channels):
            pixel = tuple(row[x:x + channels])
            pixels.append(pixel[:3] if channels > 2 else pixel[:1] * 3)
        before = row
    return Picture("iterm2", width, height, pixels)


def of_sixels(data):
    """Decodes sixels that tell their size."""
    match = re.match(r'[\d;]*q"1;1;(\d+);(\d+)', data)
    assert match, data[:60]
    width, height = int(match[1]), int(match[2])
    pixels, colours = [None] * (width * height), {}
    x = y = colour = 0
    for part in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)([?-~])|([?-~])|(\$)|(-)", data[match.end():]):
        number, red, green, blue, times, repeated, single, back, down = part.groups()
        if number:
            colour = int(number)
            if red:
                colours[colour] = tuple(round(int(level) * 255 / 100) for level in (red, green, blue))
        elif back:
            x = 0
        elif down:
            x, y = 0, y + 6
        else:
            bits, count = ord(repeated or single) - 63, int(times or 1)
            for column in range(x, x + count):
                for bit in range(6):
                    if bits >> bit & 1 and y + bit < height:
                        assert column < width, "a sixel beyond the picture"
                        pixels[(y + bit) * width + column] = colours[colour]
            x += count
    return Picture("sixel", width, height, pixels)


class Screen:
    """Cells, modes and pictures, as the bytes leave them."""

    def __init__(self, columns, rows, font):
        self.columns, self.rows, self.font = columns, rows, font
        self.cells = [[" "] * columns for _ in range(rows)]
        # What a picture covers: cells by place, each with the picture that is seen there.
        self.covered = {}
        self.x = self.y = 0
        self.saved = (0, 0)
        self.modes = {"cursor"}
        self.pictures = []
        self.kept = {}
        self.parts = None
        self.questions = []
        self.rest = ""

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def take(self, text):
        text, at = self.rest + text, 0
        self.rest = ""
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            match = SEQUENCE.match(text, at)
            if match is None:
                self.rest = text[at:]
                return
            self.act(match)
            at = match.end()

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif c == "\x07":
            pass
        elif unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
            if self.x > 0:
                self.cells[self.y][self.x - 1] += c
        else:
            assert c >= " ", repr(c)
            width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
            if self.x < self.columns:
                self.cells[self.y][self.x] = c
                self.covered.pop((self.x, self.y), None)
            self.x += width

    def erase(self, x, y, count):
        for column in range(x, min(x + count, self.columns)):
            self.cells[y][column] = " "
            self.covered.pop((column, y), None)

    def draw(self, picture):
        self.pictures.append(picture)
        columns, rows = -(-picture.width // self.font[0]), -(-picture.height // self.font[1])
        assert self.y + rows < self.rows and self.x + columns <= self.columns, "a picture beyond the screen"
        for row in range(self.y, self.y + rows):
            for column in range(self.x, self.x + columns):
                self.covered[column, row] = picture

    def act(self, match):
        if match["final"]:
            return self.control(match["private"], match["numbers"], match["final"])
        if match["plain"] == "7":
            self.saved = (self.x, self.y)
        elif match["plain"] == "8":
            self.x, self.y = self.saved
        elif match["dcs"] is not None:
            self.draw(of_sixels(match["dcs"]))
        elif match["apc"] is not None:
            self.kitty(match["apc"])
        elif match["osc"] is not None:
            if match["osc"].startswith("1337;File="):
                options, payload = match["osc"][len("1337;File="):].split(":")
                data = base64.b64decode(payload, validate=True)
                facts = dict(option.split("=") for option in options.split(";"))
                picture = of_png(data)
                assert facts["inline"] == "1" and int(facts["size"]) == len(data), facts
                assert (facts["width"], facts["height"]) == ("%dpx" % picture.width, "%dpx" % picture.height), facts
                self.draw(picture)
            else:
                self.questions.append("OSC " + match["osc"])

    def control(self, private, numbers, final):
        values = [int(number or 0) for number in numbers.split(";")] if ":" not in numbers else []
        first = max(values[0], 1) if values else 1
        if private == "?" and final in "hl":
            for number in numbers.split(";"):
                mode = MODES[number]
                (self.modes.add if final == "h" else self.modes.discard)(mode)
                if mode == "alternate":
                    self.cells = [[" "] * self.columns for _ in range(self.rows)]
                    self.covered = {}
        elif final == "H":
            self.y, self.x = first - 1, (max(values[1], 1) - 1 if len(values) > 1 else 0)
        elif final == "J":
            for row in range(self.rows):
                self.erase(0, row, self.columns)
        elif final == "X":
            self.erase(self.x, self.y, first)
        elif final == "A":
            self.y = max(self.y - first, 0)
        elif final == "B":
            self.y = min(self.y + first, self.rows - 1)
        elif final == "C":
            self.x = min(self.x + first, self.columns - 1)
        elif final == "c":
            self.questions.append("DA1")
        elif final == "n":
            self.questions.append("DSR")
        else:
            assert final == "m", (private, numbers, final)

    def kitty(self, command):
        head, _, payload = command.partition(";")
        facts = dict(fact.split("=") for fact in head.split(","))
        if facts.get("a") == "d":
            self.kept.pop(facts["i"], None)
            return
        if "i" in facts:
            assert facts["a"] == "T" and facts["U"] == "1" and facts["f"] == "32", facts
            self.parts = (facts, "")
        self.parts = (self.parts[0], self.parts[1] + payload)
        if facts["m"] == "0":
            facts, payload = self.parts
            data = base64.b64decode(payload, validate=True)
            data = zlib.decompress(data) if facts.get("o") == "z" else data
            width, height = int(facts["s"]), int(facts["v"])
            assert len(data) == width * height * 4, (len(data), width, height)
            picture = Picture("kitty", width, height, [tuple(data[at:at + 3]) for at in range(0, len(data), 4)])
            self.pictures.append(picture)
            self.kept[facts["i"]] = picture

    def drawn(self):
        """The picture that is seen, and how many cells it has; None when there is none, or more than one."""
        placed = sum(cell.startswith(PLACEHOLDER) for row in self.cells for cell in row)
        seen = set(self.covered.values()) | (set(self.kept.values()) if placed else set())
        assert len(seen) < 2, "two pictures at once"
        return (seen.pop(), placed or len(self.covered)) if seen else None


# Starts a command in a process group of its own, in front, as a shell does, and tells of what becomes of it.
LEADER = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
out = int(sys.argv[1])
os.write(out, b"pid %d\\n" % child)
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgid(0))
    if not os.WIFSTOPPED(status):
        os.write(out, b"code %d\\n" % os.waitstatus_to_exitcode(status))
        break
    os.write(out, b"stopped\\n")
    sys.stdin.readline()
    os.tcsetpgrp(0, child)
    os.killpg(child, signal.SIGCONT)
sys.stdin.readline()
"""


class Terminal:
    """nra on a terminal of a size in cells and pixels; `answers` are what the terminal says to questions."""

    def __init__(self, command, directory, environment, columns=120, rows=30, font=(10, 20), answers=None):
        self.screen = Screen(columns, rows, font)
        self.answers = {} if answers is None else answers
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        news, told = os.pipe()
        os.set_inheritable(told, True)
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, columns * font[0], rows * font[1]))
        self.before = termios.tcgetattr(theirs)
        self.leader = os.fork()
        if self.leader == 0:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(theirs, number)
            os.chdir(directory)
            os.execve(sys.executable, [sys.executable, "-c", LEADER, str(told), *command], environment)
        os.close(told)
        self.master, self.slave, self.news = ours, theirs, os.fdopen(news, "r")
        self.pid = int(self.news.readline().split()[1])
        self.deadline = time.monotonic() + LIMIT

    def read(self, patience=0.05):
        while select.select([self.master], [], [], patience)[0]:
            try:
                part = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.screen.take(self.decoder.decode(part))
            for question in self.screen.questions:
                for known, answer in self.answers.items():
                    if question.startswith(known):
                        os.write(self.master, answer.encode())
            self.screen.questions.clear()

    def until(self, is_so, what):
        while True:
            self.read()
            if is_so(self.screen):
                return
            if time.monotonic() > self.deadline:
                raise AssertionError("waited for %s; the screen is:\n%s" % (what, self.screen.text()))

    def sees(self, text):
        self.until(lambda screen: text in screen.text(), repr(text))

    def types(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, columns, rows, font=(10, 20)):
        """Changes the size, while nra is stopped: it is not told."""
        self.screen.columns, self.screen.rows = columns, rows
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, columns * font[0], rows * font[1]))

    def hears(self, word):
        """Waits until the one that started nra tells of it; returns what it tells."""
        while not select.select([self.news], [], [], 0)[0]:
            self.read()
            assert time.monotonic() < self.deadline, "waited for %r" % word
        line = self.news.readline()
        assert line.startswith(word), line
        self.read()
        return line.strip()

    def is_restored(self):
        """The modes are as they were, those of the line and those of the screen."""
        after = termios.tcgetattr(self.slave)
        assert after == self.before, "%s\n%s" % (self.before, after)
        assert self.screen.modes == {"cursor"}, self.screen.modes
        assert not self.screen.kept and not self.screen.covered, "a picture is left"

    def close(self):
        for pid in (self.pid, self.leader):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self.master)
        os.close(self.slave)
        os.waitpid(self.leader, 0)
