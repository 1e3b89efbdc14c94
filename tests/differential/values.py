"""Neutral table values, which are the form in which the results of all readers are compared.

A table is a list of `Column`. A cell is None, bool, int, float, str, bytes, Decimal, list, dict (a
struct) or one of the classes below. The numbers in these classes are Python integers, which can
represent every date and time in nanoseconds.
"""

import base64
import json
import math
import re
import struct
import sys
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAY = 86_400 * 10**9
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Date:
    days: int


@dataclass(frozen=True)
class Time:
    ns: int


@dataclass(frozen=True)
class Timestamp:
    ns: int
    zone: str | None


@dataclass(frozen=True)
class Duration:
    ns: int


@dataclass(frozen=True)
class Interval:
    months: int
    days: int
    ns: int


@dataclass(frozen=True)
class Map:
    entries: tuple


@dataclass
class Column:
    name: str
    cells: list
    type: str = ""
    # The logical type, if the cells do not show it: uuid, json, enum, bson.
    logical: str = ""


def columns_of(table: pa.Table) -> list[Column]:
    """Returns the neutral columns of an Arrow table."""
    columns = []
    for field, chunks in zip(table.schema, table.columns):
        cells = [cell for chunk in chunks.chunks for cell in cells_of(chunk)]
        logical = ""
        if isinstance(field.type, pa.BaseExtensionType):
            logical = field.type.extension_name.removeprefix("arrow.")
        columns.append(Column(field.name, cells, str(field.type), logical))
    return columns


def cells_of(array: pa.Array) -> list:
    """Returns the neutral cells of an Arrow array of any encoding."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return cells_of(array.storage)
    if pa.types.is_dictionary(kind):
        values = cells_of(array.dictionary)
        return [None if key is None else values[key] for key in array.indices.to_pylist()]
    if pa.types.is_run_end_encoded(kind):
        return cells_of(pc.run_end_decode(array))
    if pa.types.is_null(kind):
        return [None] * len(array)
    if pa.types.is_union(kind):
        children = {code: cells_of(array.field(i)) for i, code in enumerate(kind.type_codes)}
        offsets = array.offsets.to_pylist() if kind.mode == "dense" else range(len(array))
        return [children[code][at] for code, at in zip(array.type_codes.to_pylist(), offsets)]
    cells = _nested(array) if pa.types.is_nested(kind) else _flat(array)
    if array.null_count:
        cells = [cell if valid else None for cell, valid in zip(cells, array.is_valid().to_pylist())]
    return cells


def _nested(array):
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [cells_of(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return [dict(zip(names, row)) for row in zip(*fields)] if fields else [{} for _ in range(len(array))]
    if pa.types.is_map(kind):
        keys, items, offsets = cells_of(array.keys), cells_of(array.items), array.offsets.to_pylist()
        return [Map(tuple(zip(keys[a:b], items[a:b]))) for a, b in zip(offsets, offsets[1:])]
    values = cells_of(array.values)
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return [values[i * size : (i + 1) * size] for i in range(array.offset, array.offset + len(array))]
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return [values[a : a + n] for a, n in zip(array.offsets.to_pylist(), array.sizes.to_pylist())]
    offsets = array.offsets.to_pylist()
    return [values[a:b] for a, b in zip(offsets, offsets[1:])]


def _flat(array):
    kind = array.type
    if pa.types.is_timestamp(kind):
        unit = UNITS[kind.unit]
        return [None if n is None else Timestamp(n * unit, kind.tz) for n in array.view(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if n is None else Date(n) for n in array.view(pa.int32()).to_pylist()]
    if pa.types.is_date64(kind):
        return [None if n is None else Date(n // 86_400_000) for n in array.view(pa.int64()).to_pylist()]
    if pa.types.is_time(kind):
        unit, width = UNITS[kind.unit], pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return [None if n is None else Time(n * unit) for n in array.view(width).to_pylist()]
    if pa.types.is_duration(kind):
        unit = UNITS[kind.unit]
        return [None if n is None else Duration(n * unit) for n in array.view(pa.int64()).to_pylist()]
    if pa.types.is_interval(kind):
        return [None if n is None else Interval(*n) for n in array.to_pylist()]
    if pa.types.is_floating(kind):
        return [None if n is None else float(n) for n in array.to_pylist()]
    return array.to_pylist()


def same(one, other) -> bool:
    """Compares two cells strictly, including types, signs of zeros, zones and the order of entries, but not NaN payloads."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Map):
        return same([list(entry) for entry in one.entries], [list(entry) for entry in other.entries])
    if isinstance(one, Timestamp):
        return one.ns == other.ns and zone(one.zone) == zone(other.zone)
    return one == other


def zone(name):
    """Returns one spelling for the usual spellings of UTC."""
    return "UTC" if name in ("Z", "+00:00", "UTC", "Etc/UTC") else name


def count(cell) -> int:
    """Counts the values in a cell."""
    if isinstance(cell, list):
        return sum(map(count, cell))
    if isinstance(cell, dict):
        return sum(map(count, cell.values()))
    if isinstance(cell, Map):
        return sum(count(value) for entry in cell.entries for value in entry)
    return 1


# ---- Texts: how cells look in JSON and CSV ----

_DATE = r"([+-]?\d{4,})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?"
_STAMP = re.compile(rf"{_DATE}(?:[T ]{_TIME}\s*(Z|UTC|[+-]\d\d:?\d\d)?)?")
_CLOCK = re.compile(_TIME)
_DURATION = re.compile(r"(-?)P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+)(?:\.(\d+))?S)?)?")


def days_of(year, month, day):
    """Returns the days since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _fraction(digits):
    return int((digits or "0")[:9].ljust(9, "0"))


def _clock(hours, minutes, seconds, digits):
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)) * 10**9 + _fraction(digits)


def instant_of(text):
    """Returns the nanoseconds, and whether an offset was present, or None if the text is not a date or time."""
    found = _STAMP.fullmatch(text)
    if not found:
        return None
    year, month, day, hours, minutes, seconds, digits, offset = found.groups()
    ns = days_of(int(year), int(month), int(day)) * DAY
    if hours is not None:
        ns += _clock(hours, minutes, seconds, digits)
    if offset and offset[0] in "+-":
        shift = (int(offset[1:3]) * 60 + int(offset[-2:])) * 60 * 10**9
        ns -= shift if offset[0] == "+" else -shift
    return ns, offset is not None


def is_clock(text):
    return _CLOCK.fullmatch(text) is not None


def _duration(text):
    if words := re.findall(r"(-?\d+(?:\.\d+)?) (year|mon|day|hour|min|sec)s?", text):
        units = {unit: Decimal(number) for number, unit in words}
        seconds = (units.get("hour", 0) * 60 + units.get("min", 0)) * 60 + units.get("sec", 0)
        return int(units.get("year", 0) * 12 + units.get("mon", 0)), int(units.get("day", 0)), int(seconds * 10**9)
    found = _DURATION.fullmatch(text)
    if not found or text in ("P", "-P"):
        return None
    sign = -1 if found[1] else 1
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[1:6])
    seconds = found[7] or "0"
    below = _fraction(found[8])
    ns = (hours * 3600 + minutes * 60 + int(seconds)) * 10**9 + (-below if seconds.startswith("-") else below)
    return sign * (years * 12 + months), sign * days, sign * ns


def reads_as(cell, found) -> bool:
    """Reports whether a JSON value, whose numbers are Decimals or ints, represents a cell."""
    if cell is None or found is None:
        return cell is None and found is None
    if isinstance(cell, (list, tuple)):
        return isinstance(found, list) and len(cell) == len(found) and all(map(reads_as, cell, found))
    if isinstance(cell, dict):
        return isinstance(found, dict) and list(cell) == list(found) and all(reads_as(cell[key], found[key]) for key in cell)
    if isinstance(cell, Map):
        return _map_reads_as(cell, found)
    if isinstance(cell, bool) or isinstance(found, bool):
        return cell is found
    if isinstance(cell, int):
        return isinstance(found, int) and cell == found
    if isinstance(cell, float):
        return _float_reads_as(cell, found)
    if isinstance(cell, Decimal):
        return isinstance(found, (int, Decimal)) and same_number(cell, Decimal(found)) or isinstance(found, str) and spells(cell, found)
    return isinstance(found, str) and spells(cell, found)


def _map_reads_as(cell, found):
    if isinstance(found, dict):
        names = [str(key) if not isinstance(key, bytes) else key for key, _ in cell.entries]
        spelled = len(names) == len(found) and all(n == f or not isinstance(n, str) for n, f in zip(names, found))
        return spelled and all(reads_as(value, other) for (_, value), other in zip(cell.entries, found.values()))
    if not isinstance(found, list) or len(found) != len(cell.entries):
        return False
    pairs = [list(entry.values()) if isinstance(entry, dict) else entry for entry in found]
    return all(isinstance(p, list) and len(p) == 2 and reads_as(e, p) for e, p in zip(cell.entries, pairs))


def same_number(one, other):
    """Reports whether two JSON numbers are equal, or are the same float if `one` has only the digits of that float."""
    if one == other or not isinstance(one, Decimal) or other == 0 or float(one) != float(other):
        return one == other
    # Below the smallest normal float, a string may have more digits than are needed to identify the
    # float.
    digits = len(one.as_tuple().digits)
    return abs(one) < sys.float_info.min or Context(prec=digits).create_decimal_from_float(float(one)) == one


def _float_reads_as(cell, found):
    if isinstance(found, str):
        names = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
        name = found.lower().lstrip("+")
        value = -names.get(name[1:], 0.0) if name.startswith("-") else names.get(name)
        return bool(value) and same(cell, value)
    if not isinstance(found, (int, float, Decimal)) or math.isnan(cell) or math.isinf(cell):
        return isinstance(found, float) and same(cell, found)
    value = float(found)
    if isinstance(found, int) and cell == 0.0 and math.copysign(1, cell) < 0:
        return False
    with np.errstate(all="ignore"):
        # A narrower float is written with only the digits that identify it in its own type.
        return any(same(cell, float(width(value))) for width in (np.float64, np.float32, np.float16))


def spells(cell, text: str) -> bool:
    """Reports whether a string, as in CSV, represents a cell that is not null."""
    if isinstance(cell, str):
        return cell == text
    if isinstance(cell, bool):
        return text.lower() == str(cell).lower()
    if isinstance(cell, bytes):
        try:
            return base64.b64decode(text, validate=True) == cell
        except ValueError:
            return False
    if isinstance(cell, Date):
        found = instant_of(text)
        return found is not None and found[0] == cell.days * DAY
    if isinstance(cell, Timestamp):
        found = instant_of(text)
        return found is not None and found == (cell.ns, cell.zone is not None)
    if isinstance(cell, Time):
        found = _CLOCK.fullmatch(text)
        return found is not None and _clock(*found.groups()) == cell.ns
    if isinstance(cell, (Duration, Interval)):
        parts = (0, 0, cell.ns) if isinstance(cell, Duration) else (cell.months, cell.days, cell.ns)
        found = _duration(text)
        if found is None:
            return False
        return found == parts or isinstance(cell, Duration) and found[0] == 0 and found[1] * DAY + found[2] == cell.ns
    if isinstance(cell, Decimal):
        try:
            return same_number(cell, Decimal(text))
        except ArithmeticError:
            return False
    if isinstance(cell, float) and not re.fullmatch(r"[-+]?[\d.]+([eE][-+]?\d+)?", text):
        return _float_reads_as(cell, text)
    try:
        # Cells that have no text form of their own are written as JSON.
        return reads_as(cell, json_value(text))
    except json.JSONDecodeError:
        return False


def json_value(text: str):
    """Parses JSON without losing any digit of its numbers."""
    return json.loads(text, parse_float=Decimal, parse_int=lambda digits: Decimal(digits) if digits == "-0" else int(digits))
