#!/usr/bin/env python3
"""Runs the cases: packing, reading and checking .nra files, and converting tar, zip and 7z archives and compressed files.

  run.py INPUTS --bin PATH

INPUTS is the output directory of generate.py. Exit status: 0 if no case failed; the last line is that of check.py.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    with open(os.path.join(HERE, "cases.json")) as f:
        cases = json.load(f)
    only = [word for case in cases for word in ("--only", case["id"])]
    command = [sys.executable, os.path.join(HERE, "check.py"), *sys.argv[1:], "--heavy", *only]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
