"""Writes samples as a tar file. Some samples lack a member, and some names need pax headers."""

import io
import sys
import tarfile

with tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT) as tar:
    for number in range(500):
        folder = "long" * 30 if number % 100 == 0 else "d.v1"
        members = {"cls": str(number).encode(), "jpg": bytes([number % 256]) * (number * 3), "a.b.txt": b"\xc3\xa4"}
        if number % 3 == 0:
            del members["jpg"]
        for name, data in members.items():
            info = tarfile.TarInfo(f"{folder}/{number:06}.{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
