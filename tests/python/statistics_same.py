"""Compares the documents of `ferry inspect --stats --histogram --json` with numpy's statistics of the same tensors.

The argument is a file that lists [case, document, safetensors file of the same tensors,
dequantized]. Prints the number of comparisons.
"""

import json
import math
import pathlib
import sys

import ml_dtypes
import numpy as np

DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F32": np.float32, "F64": np.float64, "C64": np.complex64, "C128": np.complex128,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "I4_UNPACKED": ml_dtypes.int4, "U4_UNPACKED": ml_dtypes.uint4, "F4_UNPACKED": ml_dtypes.float4_e2m1fn,
    "I2_UNPACKED": ml_dtypes.int2, "U2_UNPACKED": ml_dtypes.uint2,
    "I4": ml_dtypes.int4, "U4": ml_dtypes.uint4, "F4": ml_dtypes.float4_e2m1fn,
    "I2": ml_dtypes.int2, "U2": ml_dtypes.uint2,
}  # fmt: skip
BITS = {"I4": 4, "U4": 4, "F4": 4, "I2": 2, "U2": 2}


def unpacked(raw, bits):
    """Unpacks elements that share bytes, with the first in the lowest bits, to one element per byte."""
    codes = np.frombuffer(raw, np.uint8)[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
    return codes.reshape(-1).astype(np.uint8).tobytes()


def array(dtype, raw):
    if dtype in BITS:
        raw = unpacked(raw, BITS[dtype])
    return np.frombuffer(raw, DTYPES[dtype])


def least_normal_and_largest(dtype):
    if dtype == "F8_E8M0":
        return 0.0, 2.0**127
    info = (ml_dtypes.finfo if dtype.startswith(("F8", "F4", "BF")) else np.finfo)(DTYPES[dtype])
    return float(info.smallest_normal), float(info.max)


def is_float(dtype):
    return dtype.startswith(("F", "BF"))


def compare(name, dtype, stats, raw, seen):
    x = array(dtype, raw)
    assert stats["count"] == x.size, (name, stats["count"], x.size)
    if is_float(dtype):
        wide = x.astype(np.float64)
        least, largest = least_normal_and_largest(dtype)
    elif dtype.startswith("C"):
        nan = np.isnan(x)
        with np.errstate(all="ignore"):
            wide = np.where(nan, np.nan, np.abs(x.astype(np.complex128)))
    else:
        wide = x.astype(np.uint8) if dtype == "BOOL" else x
        if wide.dtype.itemsize == 1 and dtype not in ("U8", "I8", "BOOL"):
            wide = wide.astype(np.int64)
    finite = wide[np.isfinite(wide)]
    expected = {
        "finite": finite.size,
        "nan": np.isnan(wide).sum(),
        "posinf": np.isposinf(wide).sum() if wide.dtype.kind == "f" else 0,
        "neginf": np.isneginf(wide).sum() if wide.dtype.kind == "f" else 0,
        "zeros": (finite == 0).sum(),
        "min": finite.min() if finite.size else None,
        "max": finite.max() if finite.size else None,
    }
    if is_float(dtype):
        expected["subnormals"] = ((finite != 0) & (np.abs(finite) < least)).sum()
        expected["saturated"] = (np.abs(finite) == largest).sum()
    for key, value in expected.items():
        # Magnitudes of complex numbers are square roots, which may differ in the last bit.
        is_root = dtype.startswith("C") and key in ("min", "max") and value is not None
        is_same = math.isclose(stats[key], value, rel_tol=1e-15) if is_root else stats[key] == value
        assert is_same, (name, dtype, key, stats[key], value)
    if not finite.size:
        assert stats["mean"] is None and stats["std"] is None, (name, stats)
    else:
        exact = finite.astype(np.longdouble)
        with np.errstate(all="ignore"):
            mean, std = exact.mean(), exact.std()
        # If large values cancel out, the mean keeps the F64 rounding error of the largest value.
        rounding = 1e-15 * float(np.abs(exact).max())
        assert abs(stats["mean"] - mean) <= 1e-6 * abs(mean) + rounding, (name, dtype, stats["mean"], mean)
        found = float(stats["std"])
        if np.isfinite(found):
            assert abs(found - std) <= 1e-6 * std + rounding, (name, dtype, found, std)
        else:
            assert std > 1e154, (name, dtype, found, std)
    seen["tensors"] += 1
    seen["dtypes"].add(dtype)
    compare_histogram(name, dtype, stats, x if dtype == "F32" else wide, seen)


def compare_histogram(name, dtype, stats, values, seen):
    values = values[np.isfinite(values)]
    try:
        with np.errstate(all="ignore"):
            counts, edges = np.histogram(values, bins=64)
    except ValueError:
        assert stats.get("histogram") is None, (name, dtype)
        return
    assert stats["histogram"]["counts"] == counts.tolist(), (name, dtype, stats["histogram"], counts)
    if dtype.startswith("C"):
        np.testing.assert_allclose(stats["histogram"]["edges"], edges, rtol=1e-14, err_msg=name)
        return
    assert stats["histogram"]["edges"] == edges.astype(np.float64).tolist(), (name, dtype)
    seen["histograms"] += 1


def main():
    seen = {"tensors": 0, "histograms": 0, "dtypes": set(), "left_out": {}}
    for case, document, tensors in json.loads(pathlib.Path(sys.argv[1]).read_text()):
        document = json.loads(pathlib.Path(document).read_text())
        data = pathlib.Path(tensors).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        found = {t["name"]: (t["dtype"], t["stats"]) for t in document["tensors"]}
        for weight in document["model"].get("weights", []):
            found[weight["name"]] = ("F32", weight["stats"])
        for name, (dtype, stats) in found.items():
            if "count" not in stats or "total_length" in stats or name not in header:
                seen["left_out"][dtype] = seen["left_out"].get(dtype, 0) + 1
                continue
            start, end = header[name]["data_offsets"]
            raw = data[8 + length + start : 8 + length + end]
            if stats.get("dequantized"):
                dtype = "F32"
            if dtype not in DTYPES:
                seen["left_out"][dtype] = seen["left_out"].get(dtype, 0) + 1
                continue
            compare(f"{case}: {name}", dtype, stats, raw, seen)
    print(json.dumps({**seen, "dtypes": sorted(seen["dtypes"])}))


if __name__ == "__main__":
    main()
