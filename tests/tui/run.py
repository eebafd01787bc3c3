"""Stories through a real terminal: nra runs inside tmux, keys go in, the screen is looked at.

    python3 tests/tui/run.py --bin target/release/nra

Needs tmux. Each story ends with a look at the terminal: it must be as it was before.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib

PATIENCE = 20.0


class Terminal:
    """A shell in tmux."""

    def __init__(self, directory, width=100, height=30):
        self.socket = str(directory / "tmux")
        self.directory = directory
        shell = "env -i PATH=%s TERM=xterm-256color LANG=C.UTF-8 HOME=%s PS1='ready> ' sh" % (
            shlex.quote(os.environ["PATH"]), shlex.quote(str(directory)))
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(directory), shell)
        self.sees("ready>")

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], check=True, capture_output=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        for key in keys:
            self.tmux("send-keys", key)

    def types(self, text):
        self.tmux("send-keys", "-l", text)

    def wait(self, is_there, what):
        end = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if is_there(screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError("%s; the screen is:\n%s" % (what, screen))
            time.sleep(0.05)

    def sees(self, text):
        return self.wait(lambda screen: text in screen, "waited for %r" % text)

    def misses(self, text):
        return self.wait(lambda screen: text not in screen, "waited until %r is gone" % text)

    def run(self, command):
        self.types(command)
        self.keys("Enter")

    def is_restored(self):
        """The cursor is shown, the alternate screen is left, lines are echoed, the mouse is free."""
        # What is typed before the program has ended would be its own; what was typed before it began stands in front of the prompt.
        self.wait(lambda screen: screen.rstrip().endswith("ready>"), "waited for the prompt")
        self.run("echo is $((40 + 2)) again; stty -a | grep -o ' echo ' | head -1")
        self.sees("is 42 again")
        flags = self.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on} #{mouse_any_flag}").strip()
        assert flags == "1 0 0", flags
        self.wait(lambda screen: "\n echo" in screen, "waited for a terminal that echoes")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


def pid_of(terminal, name="nra"):
    """The process that runs in the terminal."""
    shell = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
    children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", shell], capture_output=True, text=True).stdout
    return next(int(line.split()[0]) for line in children.splitlines() if line.split()[1] == name)


def look_and_extract(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("/")
    terminal.sees("Find in this directory")
    terminal.types("guide")
    terminal.sees("docs/guide.md")
    terminal.keys("Enter")
    terminal.sees("▸ docs")
    terminal.sees("the first line")
    terminal.keys("e")
    terminal.sees("Extract guide.md")
    terminal.keys("C-u")
    terminal.types("out")
    terminal.keys("Enter")
    terminal.sees("extracted 1 file")
    assert (terminal.directory / "out/guide.md").read_text().startswith("the first line")
    terminal.keys("q")
    terminal.is_restored()


def other_sizes(terminal, nra):
    terminal.run(nra + " browse tree.nra")
    terminal.sees("6 entries")
    terminal.tmux("resize-window", "-x", "40", "-y", "10")
    terminal.sees("README")
    terminal.tmux("resize-window", "-x", "120", "-y", "40")
    terminal.sees("6 entries ·")
    terminal.keys("Q")
    terminal.is_restored()


def suspended(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("C-z")
    terminal.misses("6 entries")
    terminal.is_restored()
    terminal.run("fg")
    terminal.sees("6 entries")
    terminal.keys("q")
    terminal.is_restored()


def stopped_from_outside(terminal, nra):
    # By name, as a script does, and in a way that nobody is told of.
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    for number in (signal.SIGTSTP, signal.SIGSTOP, signal.SIGTSTP):
        pid = pid_of(terminal)
        os.kill(pid, number)
        terminal.wait(lambda _: "T" in (pathlib.Path("/proc/%d/stat" % pid).read_text().split()[2]), "waited until it is stopped")
        if number == signal.SIGSTOP:
            # The line is as the browser had it.
            terminal.types("stty sane")
            terminal.keys("C-j")
        else:
            terminal.is_restored()
        terminal.run("fg")
        terminal.wait(lambda screen: "6 entries" in screen and "ready>" not in screen, "waited for the browser")
        terminal.keys("?")
        terminal.sees("Keys: list")
        terminal.keys("Escape")
        terminal.misses("Keys: list")
    terminal.keys("q")
    terminal.is_restored()


def killed(terminal, nra):
    terminal.run(nra + " tree.nra; echo code $?")
    terminal.sees("6 entries")
    os.kill(pid_of(terminal), signal.SIGTERM)
    terminal.sees("code 143")
    terminal.is_restored()


def hung_up(terminal, nra):
    terminal.run(nra + " tree.nra; echo code $?")
    terminal.sees("6 entries")
    os.kill(pid_of(terminal), signal.SIGHUP)
    terminal.sees("code 129")
    terminal.is_restored()


def resized_again_and_again(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    for step in range(60):
        width, height = 10 + step * 37 % 160, 3 + step * 13 % 50
        terminal.tmux("resize-window", "-x", str(width), "-y", str(height))
        terminal.keys("j" if step % 2 else "k")
    terminal.tmux("resize-window", "-x", "100", "-y", "30")
    terminal.sees("6 entries ·")
    terminal.sees("README.md")
    terminal.keys("q")
    terminal.is_restored()


def keys_for_the_shell(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("q")
    # Not waiting for the prompt, but as fast as people type: all of it is for the shell.
    time.sleep(0.3)
    terminal.run("echo all of $((6 * 7)) is here")
    terminal.sees("all of 42 is here")
    terminal.is_restored()


def light_or_dark(terminal, nra):
    # tmux tells its background, and that keys were typed meanwhile does no harm.
    terminal.run("env -u COLORFGBG " + nra + " browse tree.nra --theme auto")
    terminal.keys("j", "j")
    terminal.sees("6 entries")
    terminal.sees("README.md")
    terminal.keys("q")
    terminal.is_restored()


def heard(terminal, nra):
    terminal.run(nra + " browse tree.nra --linear --read-only")
    terminal.sees("6 entries")
    terminal.keys("j")
    terminal.wait(lambda _: terminal.tmux("display-message", "-p", "#{cursor_flag} #{cursor_y}").strip() == "1 3",
                  "waited for the cursor in the second row")
    terminal.keys("d")
    terminal.sees("--read-only")
    terminal.keys("q")
    terminal.is_restored()


def sizes(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("b", "b")
    terminal.sees("areas by size")
    terminal.sees("┌zeros.bin")
    terminal.keys("b")
    terminal.misses("areas by size")
    terminal.keys("F")
    terminal.types("size>4k")
    terminal.keys("Enter")
    terminal.misses("README.md")
    terminal.sees("zeros.bin")
    terminal.keys("Escape")
    terminal.sees("README.md")
    terminal.keys("q")
    terminal.is_restored()


def a_damaged_index(terminal, nra):
    path = terminal.directory / "tree.nra"
    data = bytearray(path.read_bytes())
    data[len(data) - 700:len(data) - 300] = bytes(400)
    path.write_bytes(data)
    terminal.run(nra + " tree.nra")
    terminal.sees("damaged")
    terminal.sees("README.md")
    terminal.keys("Q")
    terminal.is_restored()


def content_in_a_pager(terminal, nra):
    terminal.run("PAGER='cat; echo end of the pager; sleep 1' " + nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("o")
    terminal.sees("end of the pager")
    terminal.sees("6 entries")
    terminal.keys("q")
    terminal.is_restored()


def interrupted_pager(terminal, nra):
    (terminal.directory / "pager.sh").write_text(
        "trap 'n=$((n + 1)); echo caught $n' INT\ncat\necho in the pager\nwhile ! test -e done; do sleep 0.1; done\n")
    terminal.run("PAGER='exec sh pager.sh' " + nra + " tree.nra; echo code $?")
    terminal.sees("6 entries")
    terminal.keys("d")
    terminal.sees("will be removed")
    terminal.keys("o")
    terminal.sees("in the pager")
    # For the pager, however often.
    terminal.keys("C-c")
    terminal.sees("caught 1")
    terminal.keys("C-c")
    terminal.sees("caught 2")
    (terminal.directory / "done").write_text("")
    terminal.sees("1 to remove")
    terminal.keys("q")
    terminal.sees("Unwritten changes")
    terminal.keys("d")
    terminal.sees("code 0")
    terminal.is_restored()


def suspended_pager(terminal, nra):
    if shutil.which("less") is None:
        return
    (terminal.directory / "tree/long.txt").write_text("".join("line %d\n" % number for number in range(1, 200)))
    terminal.run(nra + " pack tree -o long.nra -q && PAGER=less " + nra + " long.nra")
    terminal.sees("7 entries")
    terminal.keys("d")
    terminal.sees("will be removed")
    # Where the list would be.
    in_the_pager = lambda screen: screen.startswith("line 1\n")
    terminal.keys("/")
    terminal.types("long")
    terminal.keys("Enter")
    terminal.sees("1 to remove")
    terminal.keys("o")
    terminal.wait(in_the_pager, "waited for the pager")
    terminal.keys("C-z")
    # The shell alone has the keyboard, once all have stopped: what it says of that may go with the screen of the pager.
    terminal.wait(lambda screen: not in_the_pager(screen), "waited for the shell")
    time.sleep(1)
    terminal.run("echo the answer is $((6 * 7))")
    terminal.sees("the answer is 42")
    terminal.run("fg")
    terminal.wait(in_the_pager, "waited for the pager")
    terminal.keys("q")
    terminal.sees("1 to remove")
    terminal.keys("q", "d")
    terminal.is_restored()


def keys_for_the_pager(terminal, nra):
    outer = terminal.directory / "outer"
    outer.mkdir()
    with tarfile.open(outer / "in.tar.gz", "w:gz") as inner:
        (terminal.directory / "large").write_bytes(bytes(64 << 20))
        inner.add(terminal.directory / "large", "z")
        inner.add(terminal.directory / "tree/README.md", "a.md")
    (terminal.directory / "pager.sh").write_text("cat > seen\necho your turn\nread line < /dev/tty\necho \"got $line\"\nsleep 1\n")
    terminal.run(nra + " pack outer -o outer.nra -q && PAGER='exec sh pager.sh' " + nra + " outer.nra")
    terminal.sees("1 entry")
    # Typed while that is being opened: what follows is for the pager alone.
    terminal.keys("Enter", "o")
    terminal.sees("your turn")
    terminal.types("first and last")
    terminal.keys("Enter")
    terminal.sees("got first and last")
    terminal.sees("▸ in.tar.gz")
    assert (terminal.directory / "seen").read_text() == "# Read me\n"
    terminal.keys("Q")
    terminal.is_restored()


def content_in_an_editor(terminal, nra):
    (terminal.directory / "editor.sh").write_text("echo edits $1; cat $1; sleep 1\n")
    terminal.run("EDITOR='sh editor.sh' TMPDIR=. " + nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("F4")
    terminal.sees("/README.md")
    terminal.sees("6 entries")
    terminal.keys("q")
    terminal.is_restored()
    assert not list(terminal.directory.glob("nra-*")), "the copy is still there"


def faster_than_the_rows(terminal, nra):
    # Typed before the terminal is taken: down to docs, into it, and to the first file.
    terminal.run(nra + " tree.nra")
    terminal.keys("j", "Enter", "Enter")
    terminal.sees("the first line")
    terminal.keys("Q")
    terminal.is_restored()


def settings(terminal, nra):
    (terminal.directory / "bad.toml").write_text("theme = \"dark\"\n[keys]\nhelp = [\"hyper-h\"]\n")
    terminal.run("NRA_CONFIG=bad.toml " + nra + " tree.nra")
    terminal.sees("line 3")
    terminal.keys("q")
    terminal.is_restored()
    (terminal.directory / "good.toml").write_text("[keys]\nhelp = [\"ctrl-t\"]\n")
    terminal.run("NRA_CONFIG=good.toml " + nra + " tree.nra")
    terminal.sees("ctrl-t help")
    terminal.keys("C-t")
    terminal.sees("Keys: list")
    terminal.keys("q", "q")
    terminal.is_restored()


def chosen_archive(terminal, nra):
    terminal.run(nra + " browse")
    terminal.sees("Open an archive")
    terminal.types("tree")
    terminal.keys("Enter")
    terminal.sees("6 entries")
    terminal.keys("q")
    terminal.is_restored()


def history(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("H")
    terminal.sees("Commits")
    terminal.keys("Enter")
    terminal.sees("This commit is already shown")
    terminal.keys("q")
    terminal.is_restored()


def changes(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("d")
    terminal.sees("will be removed")
    terminal.keys("W")
    terminal.sees("one commit; earlier")
    terminal.keys("Enter")
    terminal.sees("5 entries")
    terminal.keys("[")
    terminal.sees("6 entries")
    terminal.keys("q")
    terminal.is_restored()
    terminal.run(nra + " tree.nra@1 --read-only")
    terminal.sees("6 entries")
    terminal.keys("d")
    terminal.sees("started with --read-only")
    terminal.keys("q")
    terminal.is_restored()


def additions(terminal, nra):
    (terminal.directory / "notes.txt").write_text("to be added\n")
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("j", "Enter")
    terminal.sees("▸ docs")
    terminal.keys("a")
    terminal.sees("Add to docs")
    terminal.types("notes.txt")
    terminal.keys("Enter")
    terminal.sees("will be added")
    terminal.keys("F7")
    terminal.sees("Make a directory in docs")
    terminal.types("empty")
    terminal.keys("Enter")
    terminal.sees("1 to make")
    terminal.keys("W")
    terminal.sees("one commit; earlier")
    terminal.keys("C-u")
    terminal.types("notes and room for more")
    terminal.keys("Enter")
    terminal.sees("8 entries")
    terminal.sees("notes.txt")
    terminal.keys("q")
    terminal.is_restored()
    listed = subprocess.run([shlex.split(nra)[0], "log", str(terminal.directory / "tree.nra")], capture_output=True, text=True).stdout
    assert "notes and room for more" in listed, listed


def conversion(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("c")
    terminal.sees("Convert tree.nra to")
    terminal.keys("C-u")
    terminal.types("copy.tar.gz")
    terminal.keys("Enter")
    terminal.sees("wrote copy.tar.gz")
    terminal.keys("q")
    terminal.is_restored()
    subprocess.run(["tar", "-xzf", "copy.tar.gz", "--to-stdout", "docs/other.txt"], cwd=terminal.directory, check=True)


def png(width, height):
    """A picture: bright at the left, dark at the right."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = (b"\0" + bytes(255 if x < width // 2 else 40 for x in range(width))) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def look_inside(terminal, nra):
    mixed = terminal.directory / "mixed"
    mixed.mkdir()
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"
    (mixed / "a.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + bytes(48))
    tensors = json.dumps({"layer.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    (mixed / "b.safetensors").write_bytes(struct.pack("<Q", len(tensors)) + tensors + bytes(12))
    (mixed / "c.json").write_text(json.dumps({"name": "evil\x1b]0;title\x07", "list": list(range(200))}))
    (mixed / "d.png").write_bytes(png(64, 48))
    (mixed / "e.png").write_bytes(png(64, 48)[:60])
    # A tmux that knows sixels would be sent some.
    terminal.run(nra + " pack mixed -o mixed.nra -q && " + nra + " browse mixed.nra --pictures blocks")
    terminal.sees("5 entries")
    terminal.sees("float32")
    terminal.keys("j")
    terminal.sees("layer.weight")
    terminal.sees("2 × 3")
    terminal.keys("j")
    terminal.sees('"list": [')
    terminal.keys("j")
    terminal.sees("PNG · 64 × 48")
    terminal.sees("▀▀▀")
    terminal.keys("F3")
    terminal.misses("e.png")
    terminal.sees("▀▀▀")
    terminal.keys("F3", "j")
    terminal.sees("is damaged")
    terminal.keys("q")
    terminal.is_restored()


def archive_in_an_archive(terminal, nra):
    outer = terminal.directory / "outer"
    outer.mkdir()
    with zipfile.ZipFile(outer / "in.zip", "w") as inner:
        inner.writestr("deep/hello.txt", "hello from inside\n")
    with tarfile.open(outer / "more.tar.gz", "w:gz") as inner:
        inner.add(outer / "in.zip", "again.zip")
    (outer / "not.zip").write_text("text\n")
    terminal.run(nra + " pack outer -o outer.nra -q && " + nra + " outer.nra")
    terminal.sees("3 entries")
    terminal.keys("Enter")
    terminal.sees("▸ in.zip")
    terminal.keys("Enter")
    terminal.sees("hello from inside")
    terminal.keys("h", "h")
    terminal.sees("3 entries")
    terminal.keys("j", "Enter")
    terminal.sees("again.zip")
    terminal.keys("Enter")
    terminal.sees("▸ again.zip")
    terminal.keys("h", "h")
    terminal.sees("not.zip")
    terminal.keys("j", "Enter")
    terminal.sees("not a supported archive")
    terminal.keys("q")
    terminal.is_restored()


def search_in_content(terminal, nra):
    lines = terminal.directory / "lines"
    lines.mkdir()
    (lines / "a.txt").write_text("".join("this is line %d\n" % number for number in range(1, 100001)))
    (lines / "b.jsonl").write_text("".join(json.dumps({"id": number, "tags": ["x", "y"]}) + "\n" for number in range(1, 5001)))
    terminal.run(nra + " pack lines -o lines.nra -q && " + nra + " lines.nra")
    terminal.sees("2 entries")
    terminal.keys("Enter", "/")
    terminal.sees("Search in the content")
    terminal.types("line 77777")
    terminal.keys("Enter")
    terminal.wait(lambda screen: "this is line 77777" in screen.splitlines()[2], "waited for the line that was sought")
    terminal.keys("n")
    terminal.sees("Search wrapped")
    terminal.keys("C-g")
    terminal.types("50000")
    terminal.keys("Enter")
    terminal.sees("50000 this is line 50000")
    terminal.keys("q", "j", "Enter")
    terminal.sees('{"id": 1, "tags": ["x", "y"]}')
    terminal.keys("Enter")
    terminal.sees('"tags": [')
    terminal.keys("h")
    terminal.sees('{"id": 1, "tags": ["x", "y"]}')
    terminal.keys("q", "q")
    terminal.is_restored()


def duplicates_and_bookmarks(terminal, nra):
    for name in ["docs/copy.md", "docs/again.md"]:
        (terminal.directory / "tree" / name).write_bytes((terminal.directory / "tree/docs/guide.md").read_bytes())
    terminal.run(nra + " pack tree -o copies.nra -q && " + nra + " copies.nra")
    terminal.sees("8 entries")
    terminal.keys("D")
    terminal.sees("3 files of 1 content")
    terminal.sees("= docs/guide.md")
    terminal.keys("j", "m", "Enter")
    terminal.sees("Bookmark a set")
    terminal.keys("D", "G", "'")
    terminal.sees("Bookmarks")
    terminal.keys("a")
    terminal.sees("▸ docs")
    terminal.keys("q")
    terminal.is_restored()


def completed_path(terminal, nra):
    (terminal.directory / "a long name of a directory").mkdir()
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("e")
    terminal.sees("tab complete")
    terminal.keys("C-u")
    terminal.types("a lo")
    terminal.keys("Tab")
    terminal.sees("a long name of a directory/")
    terminal.keys("Enter")
    terminal.sees("extracted 1 file")
    assert (terminal.directory / "a long name of a directory/README.md").exists()
    terminal.keys("q")
    terminal.is_restored()


def rows_by_typing(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("C-s")
    terminal.sees("esc close")
    terminal.types("zeq")
    terminal.sees("no match")
    terminal.keys("BSpace", "Enter", "Enter")
    terminal.sees("00000000  00 00 00")
    terminal.keys("q", "q")
    terminal.is_restored()


def clicked(terminal, nra):
    def mouse(button, text, end="M"):
        rows = terminal.screen().splitlines()
        row = next(row for row, line in enumerate(rows) if text in line)
        # As a whole: a key at a time would begin with the escape key.
        terminal.tmux("set-buffer", "\x1b[<%d;%d;%d%s" % (button, rows[row].index(text) + 2, row + 1, end))
        terminal.tmux("paste-buffer", "-r")

    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    mouse(2, "docs/")
    terminal.sees("3 marked")
    mouse(2, "docs/")
    terminal.misses("3 marked")
    mouse(0, "? help")
    terminal.sees("Keys: list")
    mouse(0, "esc close")
    terminal.misses("Keys: list")
    mouse(0, "s sort")
    terminal.sees("Sort by")
    mouse(0, "6 entries")
    terminal.misses("Sort by")
    mouse(0, "docs/")
    mouse(0, "docs/")
    terminal.sees("▸ docs")
    mouse(0, "tree.nra")
    terminal.misses("▸ docs")
    terminal.keys("q")
    terminal.is_restored()


def pasted(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("e")
    terminal.sees("Extract README.md")
    terminal.tmux("set-buffer", "pasted here\n")
    # In brackets: its line break is no key.
    terminal.tmux("paste-buffer", "-p")
    terminal.sees("pasted here")
    terminal.misses("extracted 1 file")
    terminal.keys("Enter")
    terminal.sees("extracted 1 file")
    assert (terminal.directory / "pasted here/README.md").exists()
    terminal.keys("q")
    terminal.is_restored()


def wrong_password(terminal, nra):
    terminal.run(nra + " pack tree -o sealed.nra --password right -q && " + nra + " sealed.nra; echo code $?")
    terminal.sees("Open sealed.nra")
    terminal.types("wrong")
    terminal.keys("Enter")
    terminal.sees("wrong password")
    terminal.keys("Escape")
    terminal.sees("code 5")
    terminal.is_restored()
    terminal.run(nra + " sealed.nra")
    terminal.sees("Open sealed.nra")
    terminal.types("wrong")
    terminal.sees("•••••")
    terminal.keys("Enter")
    terminal.sees("wrong password")
    terminal.types("right")
    terminal.keys("Enter")
    terminal.sees("README.md")
    terminal.keys("q")
    terminal.is_restored()


def stopped_job(terminal, nra):
    # Enough to be stopped on the way, whatever the machine does.
    (terminal.directory / "tree/large").mkdir()
    for number in range(4000):
        (terminal.directory / ("tree/large/%04d" % number)).write_bytes(b"%d" % number * 100)
    terminal.run(nra + " pack tree -o large.nra -q && " + nra + " large.nra")
    terminal.sees("4,007 entries")
    terminal.keys("A", "E", "x")
    terminal.sees("stopped")
    left = [path for path in terminal.directory.rglob("[0-9]*") if path.parent != terminal.directory / "tree/large"]
    assert len(left) < 4000 and all(path.read_bytes() == b"%d" % int(path.name) * 100 for path in left), len(left)
    terminal.keys("Q")
    terminal.is_restored()


def removed_and_back(terminal, nra):
    terminal.run(nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("d", "W", "Enter")
    terminal.sees("5 entries")
    terminal.misses("README.md")
    terminal.keys("H")
    terminal.sees("Commits")
    terminal.keys("j", "Enter")
    terminal.sees("README.md")
    # What was removed is extracted from the commit before.
    terminal.keys("g", "E")
    terminal.sees("extracted 1 file")
    assert (terminal.directory / "README.md").read_text() == "# Read me\n"
    # It comes back from there, as a commit of its own; and that is undone.
    terminal.keys("U")
    terminal.sees("restore README.md")
    terminal.keys("m")
    terminal.sees("6 entries")
    terminal.sees("commit 3 is written")
    terminal.keys("U")
    terminal.sees("Undo commit 3")
    terminal.keys("u")
    terminal.sees("5 entries")
    terminal.sees("commit 4 is written")
    terminal.keys("q")
    terminal.is_restored()
    log = subprocess.run([nra, "log", "tree.nra", "--json"], cwd=terminal.directory, check=True, capture_output=True, text=True).stdout
    assert [commit["number"] for commit in json.loads(log)["commits"]] == [4, 3, 2, 1], log


def without_colours(terminal, nra):
    terminal.run("NO_COLOR=1 " + nra + " tree.nra")
    terminal.sees("6 entries")
    colours = [part for part in terminal.tmux("capture-pane", "-p", "-e").split("\x1b[")[1:]
               if any(30 <= int(number) <= 49 and number not in ("39", "49") for number in part.split("m")[0].split(";") if number.isdigit())]
    assert not colours, colours
    terminal.keys("q")
    terminal.is_restored()


def without_unicode(terminal, nra):
    terminal.run("LC_ALL=C " + nra + " tree.nra")
    terminal.sees("6 entries")
    terminal.keys("e")
    terminal.sees("+ Extract README.md ---")
    assert terminal.screen().isascii(), terminal.screen()
    terminal.keys("Escape")
    terminal.misses("Extract README.md")
    terminal.keys("q")
    terminal.is_restored()


def not_a_terminal(terminal, nra):
    terminal.run(nra + " browse tree.nra < /dev/null; echo code $?")
    terminal.sees("code 2")
    terminal.sees("requires a terminal")


STORIES = [look_and_extract, other_sizes, suspended, stopped_from_outside, killed, content_in_a_pager, interrupted_pager, suspended_pager, keys_for_the_pager, content_in_an_editor, faster_than_the_rows, settings, chosen_archive, history,
           changes, additions, conversion, hung_up, resized_again_and_again,
           keys_for_the_shell, light_or_dark, heard, sizes, a_damaged_index, look_inside, archive_in_an_archive, search_in_content,
           duplicates_and_bookmarks, completed_path, rows_by_typing, clicked, pasted, wrong_password, stopped_job, removed_and_back, without_colours, without_unicode, not_a_terminal]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("stories", nargs="*")
    arguments = parser.parse_args()
    nra = shlex.quote(str(pathlib.Path(arguments.bin).resolve()))
    failed = 0
    for story in STORIES:
        if arguments.stories and story.__name__ not in arguments.stories:
            continue
        with tempfile.TemporaryDirectory() as place:
            directory = pathlib.Path(place)
            tree = directory / "tree"
            (tree / "docs").mkdir(parents=True)
            (tree / "README.md").write_text("# Read me\n")
            (tree / "docs/guide.md").write_text("the first line\n" + "word " * 100 + "\n")
            (tree / "docs/other.txt").write_text("other\n")
            (tree / "evil\x1b]0;title\x07.txt").write_text("\x1b[2Jgone\n")
            (tree / "zeros.bin").write_bytes(bytes(5000))
            subprocess.run([arguments.bin, "pack", str(tree), "-o", str(directory / "tree.nra"), "-q"], check=True)
            terminal = Terminal(directory)
            try:
                story(terminal, nra)
                print("ok", story.__name__)
            except Exception as error:  # The other stories are told, too.
                failed += 1
                print("FAILED", story.__name__, "-", error)
            finally:
                terminal.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
