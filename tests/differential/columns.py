"""Random Arrow tables: every type, nesting and encoding, with extreme values."""

import itertools
import random
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa

# The name of a column whose values are all different.
KEY = "key"
STRANGE = ["", " ", "a.b", "a/b", "é", 'q"u', "c,d", "l\nm", "0", "A", "a", "🏴\U000e0067", "a b", "tab\there", "x" * 300,
           "__key__", "None", "a\\b", "'", "日本", "n\0l"]
TEXTS = ["", " ", "a", "null", "NULL", "NaN", "nan", "true", "1", "-0", "01", "1e5", "0x10", "+1", "1_000", "inf", "-Infinity",
         "2024-01-31", "12:30:00", "2024-01-31T12:30:00Z", "P1D", "[1,2]", '{"a":1}', '"', '""', "a,b", "a\tb", "a\nb", "a\r\nb",
         "\r", "\\", "\\n", "\\u0041", "\u2028", "\ufeff", "\x7f", "\x01", "'", " lead", "trail ", "ünï", "ß", "日本語", "\u0301"]
ZONES = [None, None, "UTC", "America/New_York", "+05:30", "-00:30", "Europe/Berlin", "Asia/Kathmandu"]
INTEGERS = {f"{'' if signed else 'u'}int{bits}": (signed, bits) for bits in (8, 16, 32, 64) for signed in (True, False)}
DAY = 86_400


def character(rng: random.Random) -> str:
    """Returns a character of any Unicode plane."""
    plane = rng.choice([0, 0, 0, 1, 2, 3, 14, 15, 16])
    code = plane << 16 | rng.getrandbits(16)
    return chr(code) if not 0xD800 <= code < 0xE000 and code else "x"


def text(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(TEXTS)
    if kind < 0.7:
        return "".join(character(rng) for _ in range(rng.randrange(1, 5)))
    return "".join(rng.choice("abcXYZ 019") for _ in range(rng.randrange(12)))


def integer(rng, signed, bits):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = [low, high, low + 1, high - 1, 0, 1, 2**53, 2**53 + 1, -(2**53) - 1, rng.randint(low, high), rng.randrange(100)]
    return min(max(rng.choice(near), low), high)


def floating(rng, width):
    """Returns a float of 2, 4 or 8 bytes, often with random bits."""
    code, word = {2: ("e", "H"), 4: ("f", "I"), 8: ("d", "Q")}[width]
    if rng.random() < 0.5:
        value = rng.choice([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.0, 0.1, 1 / 3, 1e22, 5e-324, 123456789.0])
        with np.errstate(all="ignore"):
            return {2: np.float16, 4: np.float32, 8: np.float64}[width](value)
    found = struct.unpack(code, struct.pack(word, rng.getrandbits(8 * width)))[0]
    return {2: np.float16, 4: np.float32, 8: np.float64}[width](found)


def instant(rng, unit, wild):
    """Returns a time as units since 1970: a typical time, a time in the years 1 to 9999, or any
    time."""
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    if wild == "any":
        return rng.choice([-(2**63), 2**63 - 1, rng.randrange(-(2**63), 2**63), 253_402_300_800 * min(scale, 10**6)])
    low, high = (-62_135_596_800, 253_402_300_799) if wild == "wide" and unit != "ns" else (-9_200_000_000, 9_200_000_000)
    seconds = rng.choice([0, -1, 951_782_400, low, high, rng.randrange(low, high)])
    return seconds * scale + (rng.randrange(scale) if rng.random() < 0.6 and seconds < high else 0)


def leaf(rng, kind, wild):
    """Returns a random value of a type that is not nested, in the form that `pa.array` accepts."""
    name = str(kind)
    if name in INTEGERS:
        return integer(rng, *INTEGERS[name])
    if pa.types.is_floating(kind):
        return floating(rng, kind.bit_width // 8)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_decimal(kind):
        digits = rng.choice([1, kind.precision, rng.randrange(1, kind.precision + 1)])
        unscaled = rng.choice([0, 10**digits - 1, rng.randrange(10**digits)]) * rng.choice([1, -1])
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -kind.scale))
    if pa.types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if "binary" in name:
        return rng.choice([b"", b"\0", b"abc", rng.randbytes(rng.randrange(20))])
    if "string" in name:
        return text(rng)
    if pa.types.is_timestamp(kind):
        return instant(rng, kind.unit, wild)
    if pa.types.is_date32(kind):
        return integer(rng, True, 32) if wild == "any" else instant(rng, "s", wild) // DAY
    if pa.types.is_date64(kind):
        return (integer(rng, True, 32) if wild == "any" else instant(rng, "s", wild) // DAY) * DAY * 1000
    if pa.types.is_time(kind):
        day = DAY * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return rng.choice([0, 1, day - 1, rng.randrange(day)] + ([day, day + 1, -1] if wild == "any" else []))
    if pa.types.is_duration(kind):
        return instant(rng, kind.unit, wild)
    if pa.types.is_interval(kind):
        wide = 32 if wild == "any" else 12
        return pa.MonthDayNano([integer(rng, True, wide), integer(rng, True, wide), rng.randrange(10**15)])
    raise TypeError(kind)


def leaf_type(rng) -> pa.DataType:
    unit = rng.choice(["s", "ms", "us", "ns"])
    choices = [
        lambda: pa.type_for_alias(rng.choice(list(INTEGERS))),
        lambda: rng.choice([pa.float16(), pa.float32(), pa.float64()]),
        lambda: rng.choice([pa.string(), pa.string(), pa.large_string(), pa.string_view()]),
        lambda: rng.choice([pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(rng.choice([0, 1, 16]))]),
        lambda: pa.timestamp(unit, rng.choice(ZONES)),
        lambda: rng.choice([pa.date32(), pa.date64()]),
        lambda: pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit),
        lambda: rng.choice([pa.duration(unit), pa.month_day_nano_interval()]),
        lambda: rng.choice([pa.decimal32(9, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal128(5, -3), pa.decimal256(76, 30)]),
        lambda: rng.choice([pa.bool_(), pa.null(), pa.bool_()]),
    ]
    return rng.choice(choices)()


def column_type(rng, depth=0) -> pa.DataType:
    if depth > 2 or rng.random() < (0.55 if depth == 0 else 0.7):
        return leaf_type(rng)
    inner = lambda: column_type(rng, depth + 1)
    shape = rng.randrange(8)
    if shape == 0:
        return pa.list_(inner())
    if shape == 1:
        return rng.choice([pa.large_list, pa.list_view, pa.list_])(inner())
    if shape == 2:
        return pa.list_(inner(), rng.choice([0, 1, 3]))
    if shape in (3, 4):
        names = rng.sample(["a", "b", "c", "a.b", "", "ü"], rng.choice([0, 1, 2, 2, 3]))
        return pa.struct([pa.field(name, inner()) for name in names])
    if shape == 5:
        return pa.map_(rng.choice([pa.string(), pa.int32()]), inner())
    if shape == 6:
        values = rng.choice([pa.string(), pa.string(), pa.large_string(), pa.int64(), pa.float64(), pa.date32(), pa.binary()])
        return pa.dictionary(rng.choice([pa.int8(), pa.int32(), pa.uint16(), pa.int64()]), values, rng.random() < 0.2)
    return rng.choice([pa.uuid, lambda: pa.json_(pa.string()), pa.bool8])()


def array(rng, kind, rows, nulls, wild) -> pa.Array:
    """Returns a random array of a type."""
    mask = [rng.random() < nulls for _ in range(rows)]
    missing = pa.array(mask, pa.bool_())
    inner = lambda field, count: array(rng, field.type, count, nulls if field.nullable else 0, wild)
    lengths = [0 if null else rng.choice([0, 1, 1, 2, 3]) for null in mask]
    offsets = [0, *itertools.accumulate(lengths)]
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            values = [None if null else rng.choice(['{"a":1}', "[]", "null", '"é"']) for null in mask]
            return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
        return pa.ExtensionArray.from_storage(kind, array(rng, kind.storage_type, rows, nulls, wild))
    if pa.types.is_dictionary(kind):
        size = rng.choice([0, 1, 3, 5]) or int(not nulls)
        # A null in the dictionary makes each cell null that refers to it.
        values = array(rng, kind.value_type, size, rng.choice([0, nulls]), wild)
        keys = [None if null or not size else rng.randrange(size) for null in mask]
        return pa.DictionaryArray.from_arrays(pa.array(keys, kind.index_type), values, ordered=kind.ordered)
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.array([None if null else {} for null in mask], kind)
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays([inner(field, rows) for field in fields], fields=fields, mask=missing)
    if pa.types.is_map(kind):
        keys, items = inner(kind.key_field, offsets[-1]), inner(kind.item_field, offsets[-1])
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=missing if any(mask) else None)
    if pa.types.is_fixed_size_list(kind):
        if not kind.list_size:
            return pa.array([None if null else [] for null in mask], kind)
        return pa.FixedSizeListArray.from_arrays(inner(kind.value_field, rows * kind.list_size), type=kind, mask=missing)
    if pa.types.is_list_view(kind):
        values = inner(kind.value_field, offsets[-1])
        return pa.ListViewArray.from_arrays(pa.array(offsets[:-1], pa.int32()), pa.array(lengths, pa.int32()), values, type=kind, mask=missing)
    if pa.types.is_nested(kind):
        build, width = (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(kind) else (pa.ListArray, pa.int32())
        return build.from_arrays(pa.array(offsets, width), inner(kind.value_field, offsets[-1]), type=kind, mask=missing if any(mask) else None)
    return pa.array([None if null else leaf(rng, kind, wild) for null in mask], kind)


def table(rng, has_key=False) -> pa.Table:
    """Returns a random table. Most tables have a few columns and rows; some have no rows, or unusual names."""
    width = rng.choice([1, 1, 2, 3, 4])
    names = rng.sample(STRANGE if rng.random() < 0.25 else [f"c{i}" for i in range(width)], width)
    rows = rng.choice([0, 1, 2, 5, 5, 17, 60])
    arrays, fields = [], []
    for name in names:
        nulls, wild = rng.choice([0, 0, 0.3, 0.3, 0.9, 1]), rng.choice(["usual", "usual", "wide", "any"])
        kind = column_type(rng)
        arrays.append(array(rng, kind, rows, nulls, wild))
        fields.append(pa.field(name, kind, nullable=nulls > 0 or pa.types.is_null(kind) or rng.random() < 0.5))
    if has_key:
        arrays.append(pa.array([f"row{n}" for n in range(rows)], pa.string()))
        fields.append(pa.field(KEY, pa.string()))
    made = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    if rows > 3 and rng.random() < 0.3:
        # The table now has several chunks. Each is a slice with an offset into its buffers.
        cut = rng.randrange(1, rows)
        made = pa.concat_tables([made.slice(0, cut), made.slice(cut)])
    return made
