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

    def await_no_echo(self):
        while self.echoes():
            if time.monotonic() > self.deadline:
                raise AssertionError(f"the terminal echoes at a password prompt:\n{self.text}")
            time.sleep(0.01)

    def enter_passwords(self, *passwords):
        """Answers the first password prompts, which must not echo."""
        for number, password in enumerate(passwords, 1):
            self.until("assword", number)
            self.until(": ", number)
            self.await_no_echo()
            self.type(password + "\n")

    def end(self):
        """Waits for the end. Returns the exit code and the output."""
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        if not self.echoes():
            raise AssertionError(f"the terminal stays without echo:\n{self.text}")
        os.close(self.master)
        return os.waitstatus_to_exitcode(status), self.text


class Sandbox:
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


def new_password_is_typed_twice_without_echo(sandbox):
    terminal = sandbox.start("pack", "in", "-o", "x.nra", "-e")
    terminal.enter_passwords("hunter22", "hunter22")
    code, text = terminal.end()
    check(code == 0, text)
    check("hunter22" not in text, f"the password is shown:\n{text}")
    check(sandbox.plain("cat", "x.nra", "a", "--password", "hunter22").stdout == b"content of a\n", "cannot open the archive")


def different_passwords_write_nothing(sandbox):
    terminal = sandbox.start("pack", "in", "-o", "x.nra", "-p")
    terminal.enter_passwords("one one", "two two")
    code, text = terminal.end()
    check(code == 5 and "the passwords do not match" in text, f"code {code}:\n{text}")
    check(sandbox.names() == ["in"], sandbox.names())


def interrupt_at_password_prompt_writes_nothing(sandbox):
    terminal = sandbox.start("pack", "in", "-o", "x.nra", "-p")
    terminal.until(": ")
    terminal.await_no_echo()
    terminal.type("hun\x03")
    code, text = terminal.end()
    check(code in (130, -signal.SIGINT), f"code {code}:\n{text}")
    check(sandbox.names() == ["in"], sandbox.names())


def password_for_reading_is_typed_once(sandbox):
    check(sandbox.plain("pack", "in", "-o", "x.nra", "-e", "--password", "hunter22").returncode == 0, "pack")
    terminal = sandbox.start("cat", "x.nra", "b")
    terminal.enter_passwords("hunter22")
    code, text = terminal.end()
    check(code == 0 and "content of b" in text and "hunter22" not in text, text)


def wrong_password_can_be_corrected_twice(sandbox):
    check(sandbox.plain("pack", "in", "-o", "x.nra", "-e", "--password", "hunter22").returncode == 0, "pack")
    for arguments in (["cat", "x.nra", "b"], ["cat", "x.nra", "b", "-p"], ["rm", "x.nra", "none"]):
        for wrong in (1, 2, 3):
            terminal = sandbox.start(*arguments)
            passwords = [f"wrong{number}" for number in range(1, wrong + 1)]
            terminal.enter_passwords(*passwords, *(["hunter22"] if wrong < 3 else []))
            code, text = terminal.end()
            check("wrong1" not in text and "hunter22" not in text, f"a password is shown:\n{text}")
            if wrong == 3:
                check(code == 5 and "content" not in text, f"code {code}:\n{text}")
            elif arguments[0] == "cat":
                check(code == 0 and "content of b" in text, f"code {code}:\n{text}")
            else:
                check(code == 1 and "no entry matches none" in text, f"code {code}:\n{text}")


def attributes_are_escaped_on_terminal(sandbox):
    check(sandbox.plain("pack", "in", "-o", "x.nra", "--attr", "name=a\x1b[2Jb").returncode == 0, "pack")
    code, text = sandbox.start("attr", "x.nra", "get", "name").end()
    check(code == 0 and "\x1b[2J" not in text and "name=" in text, repr(text))
    check(sandbox.plain("attr", "x.nra", "get", "name").stdout == b"a\x1b[2Jb\n", "a pipe receives the raw value")


def read(sandbox, *parts):
    with open(sandbox.path(*parts)) as file:
        return file.read()


def conflict(sandbox):
    check(sandbox.plain("pack", "in", "-o", "x.nra").returncode == 0, "pack")
    os.mkdir(sandbox.path("out"))
    for name in "ab":
        with open(sandbox.path("out", name), "w") as file:
            file.write("mine")


def conflicts_are_asked_individually(sandbox):
    conflict(sandbox)
    terminal = sandbox.start("extract", "x.nra", "-C", "out")
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
    found = {name: read(sandbox, "out", name) for name in os.listdir(sandbox.path("out"))}
    check(found == {"a": "content of a\n", "b": "mine", "b (2)": "content of b\n"}, found)


def answer_can_apply_to_all_conflicts(sandbox):
    conflict(sandbox)
    terminal = sandbox.start("extract", "x.nra", "-C", "out")
    terminal.until("(Enter = r)")
    terminal.type("S\n")
    code, text = terminal.end()
    check(code == 0 and text.count("exists") == 1, text)
    check(read(sandbox, "out", "b") == "mine", "b was replaced")


def quit_and_interrupt_write_nothing(sandbox):
    for keys, codes in (("q\n", (1,)), ("\x03", (130,)), ("\x04", (1,))):
        if not os.path.exists(sandbox.path("out")):
            conflict(sandbox)
        terminal = sandbox.start("extract", "x.nra", "-C", "out")
        terminal.until("(Enter = r)")
        terminal.type(keys)
        code, text = terminal.end()
        check(code in codes, f"{keys!r}: code {code}:\n{text}")
        check(sorted(os.listdir(sandbox.path("out"))) == ["a", "b"], os.listdir(sandbox.path("out")))
        check(read(sandbox, "out", "a") == "mine", "a was replaced")


def answer_options_prevent_questions(sandbox):
    conflict(sandbox)
    for option, expected in (("--no", "mine"), ("--yes", "content of a\n")):
        code, text = sandbox.start("extract", "x.nra", "-C", "out", option).end()
        check(code == 0 and "exists" not in text, text)
        check(read(sandbox, "out", "a") == expected, option)


def progress_bar_is_drawn_and_removed(sandbox):
    with open("/dev/urandom", "rb") as random:
        for number in range(40):
            # Compressing digits at the highest level is slow enough to show a bar.
            with open(sandbox.path("in", f"large{number}"), "w") as file:
                file.write(random.read(128 << 10).hex())
    terminal = sandbox.start("pack", "in", "-o", "x.nra", "--best", "-j", "1")
    code, text = terminal.end()
    check(code == 0, text)
    bars = re.findall(r"packing[^\r\n]*", text)
    check(bars, f"no bar:\n{text[-2000:]}")
    last = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip())[-1]
    check(last.startswith("packed 42 files"), f"the last line is {last!r}")
    code, text = sandbox.start("verify", "x.nra", "--no-progress").end()
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
        sandbox = Sandbox(os.path.abspath(arguments.bin))
        try:
            case(sandbox)
            print(f"ok      {case.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {case.__name__}: {error}")
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
