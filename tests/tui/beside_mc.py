"""Everyday tasks in nra and in mc on the same zip archive, in the same terminal: keys pressed and seconds until the result is seen.

    python3 tests/tui/beside_mc.py --bin target/fast/nra [--files 20000]

Needs tmux and mc (with unzip or python3 for its helper). A key is one press; typed text counts each character.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time
import zipfile

from run import Terminal

import run

run.PATIENCE = 90.0


class Hands:
    """Presses keys and counts them."""

    def __init__(self, terminal):
        self.terminal, self.count, self.start = terminal, 0, time.monotonic()

    def press(self, *keys):
        self.count += len(keys)
        self.terminal.keys(*keys)

    def type(self, text):
        self.count += len(text)
        self.terminal.types(text)

    def sees(self, text):
        self.terminal.sees(text)

    def misses(self, text):
        self.terminal.misses(text)

    def until(self, there):
        end = time.monotonic() + run.PATIENCE
        while not there():
            assert time.monotonic() < end, self.terminal.screen()
            time.sleep(0.02)


def begin_nra(hands, nra):
    hands.terminal.run("cd work; " + nra + " many.zip")
    hands.sees("data/")


def begin_mc(hands, _):
    hands.terminal.run("mc -u work work")
    hands.sees("many.zip")
    # The cursor stands on `/..`.
    hands.terminal.keys("Down")
    hands.press("Enter")
    hands.sees("data")


def open_nra(hands, directory):
    pass


def open_mc(hands, directory):
    pass


def look_nra(hands, directory):
    hands.press("/")
    hands.sees("Find below here")
    hands.type("f0077.json")
    hands.sees("f0077.json")
    hands.press("Enter")
    hands.sees('"number": 77,')


def look_mc(hands, directory):
    hands.press("M-?")
    hands.sees("File name:")
    hands.type("f0077.json")
    hands.press("Enter")
    hands.sees("Finished")
    hands.press("Down", "Enter")
    hands.sees("f0077.json")
    hands.press("F3")
    hands.sees('"number": 77,')


def extract_nra(hands, directory):
    look_nra(hands, directory)
    hands.press("E")
    hands.until((directory / "f0077.json").exists)


def extract_mc(hands, directory):
    hands.press("M-?")
    hands.sees("File name:")
    hands.type("f0077.json")
    hands.press("Enter")
    hands.sees("Finished")
    hands.press("Down", "Enter")
    hands.sees("f0077.json")
    hands.press("F5")
    hands.sees("to:")
    hands.press("Enter")
    hands.until((directory / "f0077.json").exists)


def pick_nra(hands, directory):
    hands.press("F")
    hands.sees("all of these words hold")
    hands.type("*.md")
    hands.press("Enter")
    hands.sees("found: *.md")
    hands.press("A", "E")
    hands.until(lambda: len(list(directory.rglob("*.md"))) == 20)


def pick_mc(hands, directory):
    hands.press("M-?")
    hands.sees("File name:")
    hands.type("*.md")
    hands.press("Enter")
    hands.sees("Finished")
    # A panel of what was found.
    hands.type("l")
    hands.sees("n0000.md")
    # Marks what is not marked.
    hands.press("*", "F5")
    hands.sees("to:")
    hands.press("Enter")
    hands.until(lambda: len(list(directory.rglob("*.md"))) == 20)


def room_nra(hands, directory):
    hands.press("Enter", "s", "s")
    hands.sees("size ▾")
    hands.sees("large/")


def room_mc(hands, directory):
    hands.press("Down", "Enter")
    hands.sees("large")
    # Sizes of all directories.
    hands.press("C-Space")
    hands.sees("10240000")


TASKS = [("open it and see the first rows", open_nra, open_mc),
         ("find a file by its name and read it", look_nra, look_mc),
         ("find a file and extract it here", extract_nra, extract_mc),
         ("extract all *.md at any depth", pick_nra, pick_mc),
         ("see which directory takes the most room", room_nra, room_mc)]


def make(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(files):
            archive.writestr("data/d%02d/f%04d.json" % (number // 1000, number), '{\n  "number": %d,\n  "text": "%s"\n}\n' % (number, "x" * 200))
        for number in range(20):
            archive.writestr("data/notes/n%04d.md" % number, "# Note %d\n" % number)
        archive.writestr("data/large/model.bin", bytes(range(256)) * 40_000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--files", type=int, default=20_000)
    arguments = parser.parse_args()
    nra = str(pathlib.Path(arguments.bin).resolve())
    print("| task | nra: keys | seconds | mc: keys | seconds |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as made:
        whole = pathlib.Path(made) / "many.zip"
        make(whole, arguments.files)
        for title, with_nra, with_mc in TASKS:
            cells = []
            for begin, task in ((begin_nra, with_nra), (begin_mc, with_mc)):
                with tempfile.TemporaryDirectory() as place:
                    directory = pathlib.Path(place) / "work"
                    directory.mkdir()
                    (directory / "many.zip").hardlink_to(whole)
                    terminal = Terminal(directory.parent, 120, 40)
                    try:
                        terminal.run("clear")
                        hands = Hands(terminal)
                        begin(hands, nra)
                        if title.startswith("open"):
                            seconds = time.monotonic() - hands.start
                        else:
                            hands.count = 0
                            hands.start = time.monotonic()
                            task(hands, directory)
                            seconds = time.monotonic() - hands.start
                        cells.append("%d | %.1f" % (hands.count, seconds))
                    except (AssertionError, subprocess.CalledProcessError) as error:
                        cells.append("- | failed: %s" % str(error)[:1500])
                    finally:
                        terminal.close()
            print("| %s | %s |" % (title, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
