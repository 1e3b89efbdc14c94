"""Runs a command, which must succeed, and prints how many bytes of memory it held at most."""

import resource
import subprocess
import sys

subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
# Linux counts kibibytes.
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
