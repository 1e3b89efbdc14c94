"""`python -m tensorferry` is the program `ferry`."""

from tensorferry._ferry import main

if __name__ == "__main__":
    main()
