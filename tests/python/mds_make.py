"""Writes an MDS dataset in several shards with `streaming`: FOLDER [COMPRESSION]."""

import sys
from decimal import Decimal

import numpy as np
from streaming import MDSWriter

columns = {
    "id": "int", "text": "str", "raw": "bytes", "small": "uint8", "half": "float16", "score": "float64", "meta": "json",
    "tokens": "ndarray:int32", "box": "ndarray:float32:2,3", "grid": "ndarray:int16", "any": "ndarray",
    "price": "str_decimal", "long": "str_int",
}
compression = sys.argv[2] if len(sys.argv) > 2 else None
with MDSWriter(out=sys.argv[1], columns=columns, compression=compression, hashes=["sha1", "xxh64"], size_limit=1 << 14) as out:
    for n in range(300):
        out.write({
            "id": n, "text": "naïve ☃" * (n % 5), "raw": bytes([n % 256]) * (n % 17), "small": n % 256,
            "half": np.float16(n / 8), "score": n / 7, "meta": {"n": n, "list": [n, None, "ä"]},
            "tokens": np.arange(n % 9 + 1, dtype=np.int32), "box": np.full((2, 3), n / 3, np.float32),
            "grid": np.arange(2 * (n % 3 + 1), dtype=np.int16).reshape(2, -1),
            "any": np.arange(n % 4 + 1, dtype=np.uint8 if n % 2 else np.float64),
            "price": Decimal(n) / 8, "long": 10**30 + n,
        })
