#!/usr/bin/env python3
"""Tests of questions, password prompts and progress bars on a terminal. Each case runs nra on a new pseudo-terminal.

  run.py --bin PATH

Standard library only. Exit status: 0 when nothing failed.
"""
import argparse
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

LIMIT = 60


class Terminal:
    """Runs nra on a terminal, collects its output and types keys."""

    def __init__(self, binary, arguments, directory):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRA_")}
        environment["TERM"] = "xterm"
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execve(binary, ["nra", *arguments], environment)
        self.text = ""
        self.deadline = time.monotonic() + LIMIT

    def read(self):
        """Reads new output. Returns false at the end."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, self.deadline - time.monotonic()))
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"no further output after:\n{self.text}")
        try:
            part = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += part.decode("utf-8", "replace")
        return bool(part)

    def until(self, expected, times=1):
        while self.text.count(expected) < times:
            if not self.read():
                raise AssertionError(f"ended without {expected!r}:\n{self.text}")

    def echoes(self):
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def type_unseen(self, keys):
        """Types after the terminal has stopped echoing."""
        while self.echoes():
            if time.monotonic() > self.deadline:
                raise AssertionError(f"the terminal echoes at a password prompt:\n{self.text}")
            time.sleep(0.01)
        self.type(keys)

    def end(self):
        """Waits for the end. Returns the exit code and the output."""
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        if not self.echoes():
            raise AssertionError(f"the terminal stays without echo:\n{self.text}")
        os.close(self.master)
        return os.waitstatus_to_exitcode(status), self.text


class Room:
    """A directory with files to pack."""

    def __init__(self, binary):
        self.binary = binary
        self.folder = tempfile.TemporaryDirectory()
        self.at = self.folder.name
        os.mkdir(self.path("in"))
        for name in "ab":
            with open(self.path("in", name), "w") as file:
                file.write(f"content of {name}\n")

    def path(self, *parts):
        return os.path.join(self.at, *parts)

    def start(self, *arguments):
        return Terminal(self.binary, arguments, self.at)

    def plain(self, *arguments):
        return subprocess.run([self.binary, *arguments], cwd=self.at, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT)

    def names(self):
        return sorted(os.listdir(self.at))


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def new_password_is_typed_twice_without_echo(room):
    terminal = room.start("pack", "in", "-o", "x.nra", "-e")
    terminal.until(": ")
    terminal.type_unseen("hunter22\n")
    terminal.until(": ", 2)
    terminal.type_unseen("hunter22\n")
    code, text = terminal.end()
    check(code == 0, text)
    check("hunter22" not in text, f"the password is shown:\n{text}")
    check(room.plain("cat", "x.nra", "a", "--password", "hunter22").stdout == b"content of a\n", "cannot open the archive")


def different_passwords_write_nothing(room):
    terminal = room.start("pack", "in", "-o", "x.nra", "-p")
    terminal.until(": ")
    terminal.type_unseen("one one\n")
    terminal.until(": ", 2)
    terminal.type_unseen("two two\n")
    code, text = terminal.end()
    check(code == 5 and "the passwords do not match" in text, f"code {code}:\n{text}")
    check(room.names() == ["in"], room.names())


def interrupt_at_password_prompt_writes_nothing(room):
    terminal = room.start("pack", "in", "-o", "x.nra", "-p")
    terminal.until(": ")
    while terminal.echoes():
        time.sleep(0.01)
    terminal.type("hun\x03")
    code, text = terminal.end()
    check(code in (130, -signal.SIGINT), f"code {code}:\n{text}")
    check(room.names() == ["in"], room.names())


def password_for_reading_is_typed_once(room):
    check(room.plain("pack", "in", "-o", "x.nra", "-e", "--password", "hunter22").returncode == 0, "pack")
    terminal = room.start("cat", "x.nra", "b")
    terminal.until(": ")
    terminal.type_unseen("hunter22\n")
    code, text = terminal.end()
    check(code == 0 and "content of b" in text and "hunter22" not in text, text)


def wrong_password_can_be_corrected_twice(room):
    check(room.plain("pack", "in", "-o", "x.nra", "-e", "--password", "hunter22").returncode == 0, "pack")
    for arguments in (["cat", "x.nra", "b"], ["cat", "x.nra", "b", "-p"], ["rm", "x.nra", "none"]):
        for wrong in (1, 2, 3):
            terminal = room.start(*arguments)
            for number in range(1, wrong + 1):
                terminal.until("assword", number)
                terminal.until(": ", number)
                terminal.type_unseen(f"wrong{number}\n")
            if wrong < 3:
                terminal.until(": ", wrong + 1)
                terminal.type_unseen("hunter22\n")
            code, text = terminal.end()
            check("wrong1" not in text and "hunter22" not in text, f"a password is shown:\n{text}")
            if wrong == 3:
                check(code == 5 and "content" not in text, f"code {code}:\n{text}")
            elif arguments[0] == "cat":
                check(code == 0 and "content of b" in text, f"code {code}:\n{text}")
            else:
                check(code == 1 and "no entry matches none" in text, f"code {code}:\n{text}")


def attributes_are_escaped_on_terminal(room):
    check(room.plain("pack", "in", "-o", "x.nra", "--attr", "name=a\x1b[2Jb").returncode == 0, "pack")
    code, text = room.start("attr", "x.nra", "get", "name").end()
    check(code == 0 and "\x1b[2J" not in text and "name=" in text, repr(text))
    check(room.plain("attr", "x.nra", "get", "name").stdout == b"a\x1b[2Jb\n", "a pipe receives the raw value")


def conflict(room):
    check(room.plain("pack", "in", "-o", "x.nra").returncode == 0, "pack")
    os.mkdir(room.path("out"))
    for name in "ab":
        with open(room.path("out", name), "w") as file:
            file.write("mine")


def conflicts_are_asked_individually(room):
    conflict(room)
    terminal = room.start("extract", "x.nra", "-C", "out")
    terminal.until("a exists")
    terminal.until("(Enter = r)")
    terminal.type("what?\n")
    terminal.until("(Enter = r)", 2)
    terminal.type("o\n")
    terminal.until("b exists")
    terminal.until("(Enter = r)", 3)
    terminal.type("\n")
    code, text = terminal.end()
    check(code == 0, text)
    found = {name: open(room.path("out", name)).read() for name in os.listdir(room.path("out"))}
    check(found == {"a": "content of a\n", "b": "mine", "b (2)": "content of b\n"}, found)


def answer_can_apply_to_all_conflicts(room):
    conflict(room)
    terminal = room.start("extract", "x.nra", "-C", "out")
    terminal.until("(Enter = r)")
    terminal.type("S\n")
    code, text = terminal.end()
    check(code == 0 and text.count("exists") == 1, text)
    check(open(room.path("out", "b")).read() == "mine", "b was replaced")


def quit_and_interrupt_write_nothing(room):
    for keys, codes in (("q\n", (1,)), ("\x03", (130,)), ("\x04", (1,))):
        if not os.path.exists(room.path("out")):
            conflict(room)
        terminal = room.start("extract", "x.nra", "-C", "out")
        terminal.until("(Enter = r)")
        terminal.type(keys)
        code, text = terminal.end()
        check(code in codes, f"{keys!r}: code {code}:\n{text}")
        check(sorted(os.listdir(room.path("out"))) == ["a", "b"], os.listdir(room.path("out")))
        check(open(room.path("out", "a")).read() == "mine", "a was replaced")


def answer_options_prevent_questions(room):
    conflict(room)
    for option, expected in (("--no", "mine"), ("--yes", "content of a\n")):
        code, text = room.start("extract", "x.nra", "-C", "out", option).end()
        check(code == 0 and "exists" not in text, text)
        check(open(room.path("out", "a")).read() == expected, option)


def progress_bar_is_drawn_and_removed(room):
    with open("/dev/urandom", "rb") as random:
        for number in range(40):
            # Compressing digits at the highest level is slow enough to show a bar.
            with open(room.path("in", f"large{number}"), "w") as file:
                file.write(random.read(128 << 10).hex())
    terminal = room.start("pack", "in", "-o", "x.nra", "--best", "-j", "1")
    code, text = terminal.end()
    check(code == 0, text)
    bars = re.findall(r"packing[^\r\n]*", text)
    check(bars, f"no bar:\n{text[-2000:]}")
    last = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip())[-1]
    check(last.startswith("packed 42 files"), f"the last line is {last!r}")
    code, text = room.start("verify", "x.nra", "--no-progress").end()
    check(code == 0 and "verifying" not in text, text)


CASES = [
    new_password_is_typed_twice_without_echo,
    different_passwords_write_nothing,
    interrupt_at_password_prompt_writes_nothing,
    password_for_reading_is_typed_once,
    wrong_password_can_be_corrected_twice,
    attributes_are_escaped_on_terminal,
    conflicts_are_asked_individually,
    answer_can_apply_to_all_conflicts,
    quit_and_interrupt_write_nothing,
    answer_options_prevent_questions,
    progress_bar_is_drawn_and_removed,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    failed = 0
    for case in CASES:
        if arguments.only not in case.__name__:
            continue
        room = Room(os.path.abspath(arguments.bin))
        try:
            case(room)
            print(f"ok      {case.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {case.__name__}: {error}")
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
