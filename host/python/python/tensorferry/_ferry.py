"""The program that comes with the package, in place of this process."""

import os
import sys


def main() -> None:
    """Becomes the program `ferry`, with this process's arguments."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "ferry")
    if not os.path.exists(program):
        sys.exit(f"error: the package lacks its program {program}: install it again")
    os.execv(program, ["ferry", *sys.argv[1:]])
