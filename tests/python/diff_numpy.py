"""Prints the differences that numpy computes for each array that two .npz files contain with the same shape."""

import json
import sys

import numpy as np

a, b = (np.load(path) for path in sys.argv[1:])
found = {}
# JSON has no infinity.
text = lambda value: value if np.isfinite(value) else str(value)  # noqa: E731
for name in a.files:
    x, y = a[name].astype(np.float64).reshape(-1), b[name].astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(same, 0.0, np.abs(x - y))
        relative = np.where(np.isinf(apart), np.inf, apart / np.maximum(np.abs(x), np.abs(y)))
        relative = np.where(same, 0.0, relative)
    finite = np.isfinite(x) & np.isfinite(y)
    size = np.linalg.norm(x[finite]) * np.linalg.norm(y[finite])
    # Pairs with a NaN are counted separately, because they have no distance.
    largest = lambda values: float(np.max(values[~np.isnan(values)], initial=0.0))  # noqa: E731
    found[name] = {
        "elements": int((~same).sum()),
        "nan": int((np.isnan(x) != np.isnan(y)).sum()),
        "largest": text(largest(apart)),
        "relative": text(largest(relative)),
        "cosine": float(x[finite] @ y[finite] / size) if size else None,
    }
print(json.dumps(found))
