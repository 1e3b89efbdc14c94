"""Runs the program in the package, in place of this process."""

import os
import sys


def main() -> None:
    """Replaces this process with `ferry`, with the same arguments."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "ferry")
    if not os.path.exists(program):
        sys.exit(f"error: the program {program} is missing from the package: install it again")
    os.execv(program, ["ferry", *sys.argv[1:]])
