"""Everyday tasks in nra, mc and yazi on the same zip archive, in the same terminal: keys pressed and seconds until the result is seen.

    python3 tests/tui/beside.py --bin target/release/nra [--yazi PATH] [--files 20000]

Needs tmux and mc (with unzip or python3 for its helper); with --yazi also 7zz and fd. A key is one press; typed text counts each character.
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


# `ya`, by which yazi extracts on its own, may be missing where yazi is installed from source.
YAZI = """[opener]
extract = [{ run = '7zz x -y "$1"', desc = "Extract here" }]
"""


def begin_yazi(hands, yazi):
    hands.terminal.run("cd work; YAZI_CONFIG_HOME=../yazi " + yazi)
    # The preview lists the archive.
    hands.sees("f0000.json")


def nothing(hands, directory):
    """What is seen at once takes no keys."""


def look_nra(hands, directory):
    hands.press("/")
    hands.sees("Find in this directory")
    hands.type("f0077.json")
    hands.sees("f0077.json")
    hands.press("Enter")
    hands.sees('"number": 77,')


def seek_mc(hands, name):
    hands.press("M-?")
    hands.sees("File name:")
    hands.type(name)
    hands.press("Enter")
    hands.sees("Finished")


def look_mc(hands, directory):
    seek_mc(hands, "f0077.json")
    hands.press("Down", "Enter")
    hands.sees("f0077.json")
    hands.press("F3")
    hands.sees('"number": 77,')


def unpack_yazi(hands, directory):
    """Extracts everything: yazi does not go into archives."""
    hands.press("Enter")
    last = directory / "data/large/model.bin"
    hands.until(lambda: last.exists() and last.stat().st_size == 10_240_000)
    hands.sees("d00")


def look_yazi(hands, directory):
    unpack_yazi(hands, directory)
    hands.press("s")
    hands.sees("Search via fd")
    hands.type("f0077.json")
    hands.press("Enter")
    hands.sees("(search: f0077.json)")
    # What was found has no preview here: the editor shows it.
    hands.press("Enter")
    hands.sees('"number": 77,')


def extract_nra(hands, directory):
    look_nra(hands, directory)
    hands.press("E")
    hands.until((directory / "f0077.json").exists)


def extract_mc(hands, directory):
    seek_mc(hands, "f0077.json")
    hands.press("Down", "Enter")
    hands.sees("f0077.json")
    hands.press("F5")
    hands.sees("to:")
    hands.press("Enter")
    hands.until((directory / "f0077.json").exists)


def pick_nra(hands, directory):
    hands.press("F")
    hands.sees("all terms must match")
    hands.type("*.md")
    hands.press("Enter")
    hands.sees("query: *.md")
    hands.press("A", "E")
    hands.until(lambda: len(list(directory.rglob("*.md"))) == 20)


def pick_mc(hands, directory):
    seek_mc(hands, "*.md")
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


def room_yazi(hands, directory):
    unpack_yazi(hands, directory)
    hands.press("l", ",", "S")
    hands.sees("9.8M")


TASKS = [("open it and see the first rows", nothing, nothing, nothing),
         ("find a file by its name and read it", look_nra, look_mc, look_yazi),
         ("find a file and extract it here", extract_nra, extract_mc, unpack_yazi),
         ("extract all *.md at any depth", pick_nra, pick_mc, unpack_yazi),
         ("see which directory takes the most room", room_nra, room_mc, room_yazi)]


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
    parser.add_argument("--yazi")
    parser.add_argument("--files", type=int, default=20_000)
    arguments = parser.parse_args()
    programs = [(str(pathlib.Path(arguments.bin).resolve()), begin_nra), ("mc", begin_mc)]
    if arguments.yazi:
        programs.append((str(pathlib.Path(arguments.yazi).resolve()), begin_yazi))
    heads = "".join(" %s: keys | seconds |" % pathlib.Path(program).name for program, _ in programs)
    print("| task |%s\n| --- |%s" % (heads, " --- | --- |" * len(programs)))
    with tempfile.TemporaryDirectory() as made:
        whole = pathlib.Path(made) / "many.zip"
        make(whole, arguments.files)
        for title, *tasks in TASKS:
            cells = []
            for (program, begin), task in zip(programs, tasks):
                # A helper may still be writing.
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                    directory = pathlib.Path(place) / "work"
                    directory.mkdir()
                    (directory / "many.zip").hardlink_to(whole)
                    (directory.parent / "yazi").mkdir()
                    (directory.parent / "yazi/yazi.toml").write_text(YAZI)
                    terminal = Terminal(directory.parent, 120, 40)
                    try:
                        terminal.run("clear")
                        hands = Hands(terminal)
                        begin(hands, program)
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
