"""Pictures by the protocols of terminals, and terminals that are given back: nra runs on a pseudo-terminal, all that it sends is interpreted.

    python3 tests/tui/pixels.py --bin target/release/nra

Standard library only. Exit status: 0 when nothing failed.
"""

import argparse
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zlib

from screen import Terminal

LEFT, RIGHT = (250, 20, 20), (20, 20, 250)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, said=None):
    """A picture: red at the left, blue at the right; it may say that it is larger than it is."""
    row = b"\0" + bytes(LEFT) * (width // 2) + bytes(RIGHT) * (width - width // 2)
    head = struct.pack(">IIBBBBB", *(said or (width, height)), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b"")


def bitmap(width, height):
    """The head of a bitmap that promises more than anybody has."""
    return b"BM" + struct.pack("<IHHIIiiHH", 54, 0, 0, 54, 40, width, height, 1, 24) + bytes(24)


def near(pixel, colour):
    return pixel is not None and all(abs(a - b) < 12 for a, b in zip(pixel, colour))


class Room:
    """An archive with pictures, and terminals to look at it."""

    def __init__(self, nra, directory):
        self.nra, self.directory, self.terminals = nra, directory, []
        files = directory / "files"
        files.mkdir()
        (files / "a.txt").write_text("plain text\n" * 40)
        (files / "b.png").write_bytes(png(640, 320))
        (files / "c.png").write_bytes(png(100, 100))
        (files / "d.bmp").write_bytes(bitmap(40_000, 40_000))
        (files / "e.png").write_bytes(png(20, 20, (0x7fff_ffff, 0x7fff_ffff)))
        (files / "f.txt").write_text("the end\n")
        subprocess.run([nra, "pack", "files", "-o", "files.nra", "-q"], cwd=directory, check=True)

    def browse(self, *options, answers=None, first="plain text", **variables):
        # Where one was the last time is another test's business.
        shutil.rmtree(self.directory / ".local", ignore_errors=True)
        home = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "LANG": "C.UTF-8", "COLORFGBG": "15;0"}
        environment = {**home, "TERM": "xterm-256color", **variables}
        command = [self.nra, "browse", "files.nra", *options]
        terminal = Terminal(command, self.directory, environment, answers=answers)
        self.terminals.append(terminal)
        terminal.sees(first)
        return terminal

    def close(self):
        for terminal in self.terminals:
            terminal.close()


def shows(terminal, protocol, size, cells):
    """Waits for a picture of a size in pixels that takes so many cells, and looks at its colours."""
    def is_there(screen):
        drawn = screen.drawn()
        return drawn is not None and (drawn[0].width, drawn[0].height) == size and drawn[1] == cells
    terminal.until(is_there, "a picture of %d × %d pixels" % size)
    picture, _ = terminal.screen.drawn()
    assert picture.protocol == protocol, picture.protocol
    width, height = size
    for y in (0, height // 2, height - 1):
        assert near(picture.at(0, y), LEFT) and near(picture.at(width // 3, y), LEFT), picture.at(0, y)
        assert near(picture.at(width - 1, y), RIGHT) and near(picture.at(2 * width // 3, y), RIGHT), picture.at(width - 1, y)


def ends(terminal, code):
    assert terminal.hears("code") == "code %d" % code
    terminal.is_restored()


def looked_at(terminal, protocol):
    # 120 columns of ten pixels: the list has 58 % of them, the divider two.
    terminal.types("j")
    shows(terminal, protocol, (490, 245), 49 * 13)
    terminal.sees("PNG · 640 × 320 · rgb8")
    terminal.types("j")
    shows(terminal, protocol, (100, 100), 10 * 5)
    # Nothing is left of it when it is no longer looked at,
    terminal.types("k")
    shows(terminal, protocol, (490, 245), 49 * 13)
    terminal.types("k")
    terminal.sees("plain text")
    assert terminal.screen.drawn() is None
    # nor beside what lies over it; and it comes back.
    terminal.types("jj")
    shows(terminal, protocol, (100, 100), 10 * 5)
    terminal.types("?")
    terminal.sees("Keys: list")
    assert terminal.screen.drawn() is None
    terminal.types("q")
    shows(terminal, protocol, (100, 100), 10 * 5)
    # Over the whole screen it has room.
    terminal.types("kz")
    shows(terminal, protocol, (640, 320), 64 * 16)
    terminal.types("z")
    shows(terminal, protocol, (490, 245), 49 * 13)
    terminal.types("\x0c")
    terminal.until(lambda screen: screen.drawn() is not None, "the picture after the screen is drawn anew")
    terminal.types("q")
    ends(terminal, 0)


def kitty(room):
    looked_at(room.browse("--pictures", "kitty", COLORTERM="truecolor"), "kitty")


def iterm(room):
    looked_at(room.browse("--pictures", "iterm2"), "iterm2")


def sixel(room):
    looked_at(room.browse("--pictures", "sixel"), "sixel")


def half_blocks(room):
    terminal = room.browse("--pictures", "blocks")
    terminal.types("jj")
    terminal.sees("PNG · 100 × 100 · rgb8")
    terminal.sees("▀▀▀▀▀")
    assert not terminal.screen.pictures
    terminal.types("q")
    ends(terminal, 0)


def only_told_about(room):
    (room.directory / "off.toml").write_text('pictures = "off"\n')
    terminal = room.browse(NRA_CONFIG="off.toml")
    terminal.types("jj")
    terminal.sees("PNG · 100 × 100 · rgb8")
    assert "▀" not in terminal.screen.text() and not terminal.screen.pictures
    terminal.types("q")
    ends(terminal, 0)


def bombs(room):
    terminal = room.browse("--pictures", "sixel")
    terminal.types("jjj")
    terminal.sees("BMP · 40000 × 40000")
    terminal.sees("too large to display")
    terminal.types("j")
    terminal.sees("too large to display: needs")
    assert not terminal.screen.pictures
    terminal.types("j")
    terminal.sees("the end")
    terminal.types("q")
    ends(terminal, 0)


def by_the_environment(room):
    terminal = room.browse(TERM="xterm-kitty", COLORTERM="truecolor")
    terminal.types("jj")
    shows(terminal, "kitty", (100, 100), 10 * 5)
    terminal.types("q")
    ends(terminal, 0)
    terminal = room.browse(LC_TERMINAL="iTerm2")
    terminal.types("jj")
    shows(terminal, "iterm2", (100, 100), 10 * 5)
    terminal.types("q")
    ends(terminal, 0)
    # Within a multiplexer nothing is sure, and nothing is asked.
    terminal = room.browse(TMUX="/run/tmux,1,0", LC_TERMINAL="iTerm2", answers={"DA1": "\x1b[?62;4c"})
    terminal.types("jj")
    terminal.sees("▀▀▀▀▀")
    assert not terminal.screen.pictures
    terminal.types("q")
    ends(terminal, 0)


def by_the_terminal(room):
    terminal = room.browse(answers={"DA1": "\x1b[?62;4;22c"})
    terminal.types("jj")
    shows(terminal, "sixel", (100, 100), 10 * 5)
    terminal.types("q")
    ends(terminal, 0)
    # Keys that are typed before the answer are keys.
    terminal = room.browse(answers={"DA1": "?\x1b[?62;1c"}, first="Keys: list")
    terminal.types("qjj")
    terminal.sees("PNG · 100 × 100 · rgb8")
    terminal.sees("▀▀▀▀▀")
    assert not terminal.screen.pictures
    terminal.types("q")
    ends(terminal, 0)
    # A terminal that says nothing is not waited for.
    terminal = room.browse()
    terminal.types("jj")
    terminal.sees("▀▀▀▀▀")
    terminal.types("q")
    ends(terminal, 0)


def signals(room):
    for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)):
        terminal = room.browse("--pictures", "kitty", COLORTERM="truecolor")
        terminal.types("jj")
        shows(terminal, "kitty", (100, 100), 10 * 5)
        assert terminal.screen.modes == {"alternate", "paste", "mouse"}, terminal.screen.modes
        os.kill(terminal.pid, number)
        ends(terminal, code)


def signals_while_it_is_stuck(room):
    # A terminal that takes no more characters holds up whoever draws: the second signal is not for the one that draws.
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        terminal = room.browse("--pictures", "blocks")
        for _ in range(200):
            # Every cell anew, and nobody reads.
            terminal.types("\x0c")
            time.sleep(0.01)
        os.kill(terminal.pid, number)
        time.sleep(0.5)
        os.kill(terminal.pid, number)
        until = time.monotonic() + 20
        while not select.select([terminal.news], [], [], 0.1)[0]:
            assert time.monotonic() < until, "it does not end"
        line = terminal.news.readline()
        assert line == "code %d\n" % code, line
        assert termios.tcgetattr(terminal.slave) == terminal.before


def suspended(room):
    for ask in (lambda terminal: terminal.types("\x1a"), lambda terminal: terminal.types("?\x1a")):
        terminal = room.browse("--pictures", "kitty", COLORTERM="truecolor")
        terminal.types("jj")
        shows(terminal, "kitty", (100, 100), 10 * 5)
        ask(terminal)
        terminal.hears("stopped")
        terminal.is_restored()
        # The line goes to the one that started nra: it lets it go on.
        terminal.types("\n")
        terminal.until(lambda screen: "alternate" in screen.modes and "c.png" in screen.text(), "the browser again")
        terminal.types("Q")
        ends(terminal, 0)


def stopped_from_outside(room):
    for number in (signal.SIGTSTP, signal.SIGSTOP):
        terminal = room.browse("--pictures", "kitty", COLORTERM="truecolor")
        terminal.types("jj")
        shows(terminal, "kitty", (100, 100), 10 * 5)
        raw = termios.tcgetattr(terminal.slave)
        for _ in range(2):
            os.kill(terminal.pid, number)
            terminal.hears("stopped")
            # Nobody is told of the other one; a shell puts the line right by itself then.
            if number == signal.SIGTSTP:
                terminal.is_restored()
            termios.tcsetattr(terminal.slave, termios.TCSANOW, terminal.before)
            terminal.resize(100, 24)
            terminal.types("\n")
            terminal.until(lambda _: termios.tcgetattr(terminal.slave) == raw, "a line without echo")
            terminal.until(lambda screen: screen.modes == {"alternate", "paste", "mouse"}, "the modes of the browser")
            shows(terminal, "kitty", (100, 100), 10 * 5)
            # Keys work as before.
            terminal.types("?")
            terminal.sees("Keys: list")
            terminal.types("q")
            terminal.until(lambda screen: "Keys: list" not in screen.text(), "the list")
        terminal.types("Q")
        ends(terminal, 0)
    # To go on without having stopped changes nothing.
    terminal = room.browse()
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.types("?")
    terminal.sees("Keys: list")
    terminal.types("Q")
    ends(terminal, 0)


def stopped_in_a_pager(room):
    # The pager stops with the browser, as all that the shell has started in one line does.
    terminal = room.browse(PAGER="sh -c 'echo paging; read line </dev/tty; echo $line'")
    terminal.types("o")
    terminal.sees("paging")
    for _ in range(2):
        terminal.types("\x1a")
        terminal.hears("stopped")
        terminal.types("\n")
        time.sleep(0.3)
        assert "alternate" not in terminal.screen.modes, "the browser has taken the terminal from the pager"
    terminal.types("done\n")
    terminal.until(lambda screen: "alternate" in screen.modes and "plain text" in screen.text(), "the browser again")
    terminal.types("Q")
    ends(terminal, 0)


STORIES = [kitty, iterm, sixel, half_blocks, only_told_about, bombs, by_the_environment, by_the_terminal, signals, signals_while_it_is_stuck, suspended,
           stopped_from_outside, stopped_in_a_pager]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("stories", nargs="*")
    arguments = parser.parse_args()
    nra = str(pathlib.Path(arguments.bin).resolve())
    failed = 0
    for story in STORIES:
        if arguments.stories and story.__name__ not in arguments.stories:
            continue
        with tempfile.TemporaryDirectory() as place:
            room = Room(nra, pathlib.Path(place))
            try:
                story(room)
                print("ok", story.__name__)
            except Exception as error:  # The other stories are told, too.
                failed += 1
                print("FAILED", story.__name__, "-", type(error).__name__, error)
            finally:
                room.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
