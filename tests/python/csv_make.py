"""Writes rows with Python's csv module: csv_make.py FILE."""

import csv
import sys

with open(sys.argv[1], "w", newline="", encoding="utf-8-sig") as file:
    out = csv.writer(file, delimiter="\t" if sys.argv[1].endswith(".tsv") else ",")
    out.writerow(["id", "code", "score", "flag", "text", "day", "at", "zoned", "empty"])
    for n in range(5000):
        out.writerow([
            n, f"{n % 1000:03}", "" if n % 7 == 0 else n / 8, "true" if n % 2 else "false", "a,\"b\"\r\n\tü" * (n % 3),
            f"20{n % 90 + 10}-02-{n % 28 + 1:02}", f"2024-02-29T12:30:{n % 60:02}.{n % 1000:03}", f"2024-02-29T12:30:{n % 60:02}Z", "",
        ])
