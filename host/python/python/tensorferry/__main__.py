"""Runs the program `ferry` for `python -m tensorferry`."""

from tensorferry._ferry import main

if __name__ == "__main__":
    main()
