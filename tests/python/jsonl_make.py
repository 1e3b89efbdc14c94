"""Writes JSON lines as Python's json module does."""

import json
import random
import sys

random.seed(7)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    for i in range(2000):
        row = {
            "id": i,
            "big": random.choice([-(2**63), 2**63 - 1, 2**53 + 1]),
            "unsigned": random.choice([0, 2**64 - 1]),
            "huge": random.choice([10**30 + 7, -5]),
            "float": random.choice([0.1, 1e300, -0.0, 5e-324, 3]),
            "text": random.choice(["", "ä\u2028\U0001f600", 'quote " and \\', "tab\tnew\nline", None]),
            "flag": random.choice([True, False, None]),
            "list": [[random.random() for _ in range(i % 3)] for _ in range(i % 4)],
            "object": {"a": [{"b": i}], "c": None if i % 2 else "x"},
        }
        if i % 5 == 0:
            row["late"] = i
        json.dump(row, file, ensure_ascii=i % 2 == 0)
        file.write("\r\n" if i % 3 == 0 else "\n")
