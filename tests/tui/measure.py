"""What the browser costs on a large archive: the real process in a real terminal.

    python3 tests/tui/measure.py --bin target/release/nra [--entries 1000000]

Prints time and CPU to the first rows, CPU of keys, also while all is extracted, and of a search, the most memory, and fails beyond the budgets
of CPU and memory, which other work on the machine does not change. Times are those of a polled screen, to about 20 ms. Needs tmux.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from run import Terminal, pid_of

MEMORY = 100_000_000
# CPU in seconds: to the first rows with starting the process, of a key, of the search that reads all names of a million entries, and of the next text.
ROWS, KEY, SEARCH, AGAIN = 0.05, 0.016, 0.5, 0.1


def tar_of(count, out):
    """Writes a tar archive of so many small files in directories of 1,000."""
    for number in range(count):
        content = b'{"id": %d, "label": "%x"}\n' % (number, number * 2654435761 % (1 << 32))
        name = b"images/%05d/%08d.json" % (number // 1000, number)
        head = bytearray(512)
        head[:len(name)] = name
        head[100:156] = b"0000644\0000000000\0000000000\0%011o\0%011o\0        " % (len(content), 1_700_000_000 + number)
        head[156:157], head[257:265] = b"0", b"ustar\00000"
        head[148:156] = b"%06o\0 " % sum(head)
        out.write(head)
        out.write(content.ljust(512, b"\0"))
    out.write(bytes(1024))


def archive_of(nra, count, path):
    process = subprocess.Popen([nra, "convert", "-", "-o", str(path), "-q"], stdin=subprocess.PIPE)
    tar_of(count, process.stdin)
    process.stdin.close()
    assert process.wait() == 0


class Watched:
    """The browser in a terminal."""

    def __init__(self, terminal, nra, name):
        self.terminal = terminal
        self.start = time.monotonic()
        terminal.run(shlex.quote(nra) + " " + name)
        self.after("images/", lambda: None, started=self.start)
        self.pid = pid_of(terminal)

    def cpu(self):
        fields = pathlib.Path("/proc/%d/stat" % self.pid).read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_of_the_screen(self):
        """CPU of the thread that takes keys and draws, whatever the others do, seconds."""
        return int(pathlib.Path("/proc/%d/task/%d/schedstat" % (self.pid, self.pid)).read_text().split()[0]) / 1e9

    def memory(self):
        status = pathlib.Path("/proc/%d/status" % self.pid).read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def after(self, text, act, started=None):
        """Seconds from an act until the screen shows something."""
        start = started or time.monotonic()
        act()
        while text not in self.terminal.screen():
            assert time.monotonic() - start < 60, "%r does not come:\n%s" % (text, self.terminal.screen())
        return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--archive", help="an archive that was made before")
    arguments = parser.parse_args()
    nra = str(pathlib.Path(arguments.bin).resolve())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        directory = pathlib.Path(place)
        archive = directory / "many.nra"
        if arguments.archive:
            archive.symlink_to(pathlib.Path(arguments.archive).resolve())
        else:
            archive_of(nra, arguments.entries, archive)
        print("archive: %.1f MB" % (archive.stat().st_size / 1e6))
        terminal = Terminal(directory, 120, 40)
        try:
            before = time.monotonic()
            browser = Watched(terminal, nra, archive.name)
            costs = [("first rows", browser.cpu(), ROWS)]
            print("first rows after %.0f ms, %.0f ms of CPU" % ((time.monotonic() - before) * 1e3, browser.cpu() * 1e3))
            terminal.keys("Enter", "Enter")
            terminal.sees("00000000.json")
            terminal.keys("h", "h")
            terminal.sees("images/")
            start = browser.cpu()
            for _ in range(50):
                terminal.keys("j", "k")
            time.sleep(0.5)
            costs.append(("a key", (browser.cpu() - start) / 100, KEY))
            print("a key: %.1f ms of CPU" % ((browser.cpu() - start) * 10))
            print("after looking around: %.1f MB" % (browser.memory() / 1e6))
            terminal.keys("/")
            terminal.sees("Find in this directory")
            start = browser.cpu()
            hits = browser.after("00987654.json", lambda: terminal.types("987654.json"))
            whole = browser.after("%s" % format(arguments.entries + 1 + -(-arguments.entries // 1000), ","), lambda: None)
            print("search as one text: %.0f ms to the hit, %.0f ms to the end, %.0f ms of CPU" % (
                hits * 1e3, (hits + whole) * 1e3, (browser.cpu() - start) * 1e3))
            costs.append(("a search", browser.cpu() - start, SEARCH))
            start = browser.cpu()
            # What was read is kept as long as the search is open.
            terminal.keys("C-u")
            again = browser.after("00123456.json", lambda: terminal.types("123456.json"))
            costs.append(("another text", browser.cpu() - start, AGAIN))
            print("another text: %.0f ms, %.0f ms of CPU" % (again * 1e3, (browser.cpu() - start) * 1e3))
            terminal.keys("Escape")
            time.sleep(1)
            print("after a search: %.1f MB" % (browser.memory() / 1e6))
            terminal.keys("A", "e")
            terminal.sees("Extract")
            terminal.keys("C-u")
            terminal.types("out")
            start = browser.cpu_of_the_screen()
            shown = browser.after("░", lambda: terminal.keys("Enter"))
            for _ in range(50):
                terminal.keys("j", "k")
            busy = (browser.cpu_of_the_screen() - start) / 101
            print("extracting all: shown after %.0f ms; a key meanwhile, with drawing the progress: %.1f ms of CPU" % (
                shown * 1e3, busy * 1e3))
            terminal.keys("J", "x")
            terminal.sees("stopped")
            terminal.keys("Escape")
            peak = browser.memory()
            print("most memory: %.1f MB" % (peak / 1e6))
            terminal.keys("Q")
            terminal.is_restored()
        finally:
            terminal.close()
    costs.append(("a key while files are extracted", busy, KEY))
    beyond = ["%s takes %.0f ms of CPU, more than %.0f" % (what, taken * 1e3, budget * 1e3) for what, taken, budget in costs if taken > budget]
    if peak > MEMORY:
        beyond.append("%d MB of memory, more than %d" % (peak / 1e6, MEMORY / 1e6))
    if beyond:
        sys.exit("\n".join(beyond))


if __name__ == "__main__":
    main()
