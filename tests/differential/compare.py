"""Compares the contents of the input with those of ferry's output."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from columns import KEY
from ferry import ROWS
from values import UNITS, Column, Date, Duration, Map, Time, Timestamp, count, instant_of, is_clock, json_value, reads_as, same, same_number, spells


@dataclass
class Difference:
    """A difference between input and output. Differences with the same cause have the same `kind`."""

    kind: str
    what: str
    # The columns or tensors that a loss may name to explain this difference.
    names: tuple[str, ...] = ()
    # The kinds of loss that may explain this difference. If empty, any kind may.
    losses: tuple[str, ...] = ()


def tables(source: str, target: str, expected: list[Column], found: list[Column], counts: Counter):
    """Yields the differences between two tables. Each table's values have the form that its format
    stores."""
    if target == "example":
        expected = _features(expected)
    others: dict[str, list[Column]] = {}
    for column in found:
        others.setdefault(column.name, []).append(column)
    for column in expected:
        name = (column.name,)
        if not others.get(column.name):
            nothing = not column.cells or all(cell is None or cell == [] for cell in column.cells)
            # The writer chooses the column that contains a tar's sample keys.
            is_key = column.name in ("__key__", KEY) and "bytes" in (source, target)
            if not is_key and not (nothing and target in ("json", "bytes", "example", "mds")):
                yield Difference("a column is missing", f"{column.name!r} of {column.type}", name)
            continue
        other = others[column.name].pop(0)
        counts[_kind(column.type)] += sum(map(count, column.cells))
        if len(column.cells) != len(other.cells):
            yield Difference("different number of rows", f"{column.name!r}: {len(column.cells)}, now {len(other.cells)}", (*name, ROWS))
            continue
        for row, (one, two) in enumerate(zip(column.cells, other.cells)):
            # If the only field of a row is empty, it is quoted, because its line would be empty
            # without the quotes.
            if target == "text" and one is None and two == "" and len(found) == 1:
                continue
            # In a column of numbers or times, an empty field is null, with or without quotes.
            if source == "text" and target == "bytes" and one == "" and two is None and _has_no_texts(other):
                continue
            if not agrees(source, target, one, two):
                kind = f"{_kind(column.type)} became {_kind(other.type)}" + _how(one, two)
                yield Difference(kind, f"column {column.name!r} row {row}: {one!r} became {two!r}"[:600], name)
                break
        if source == target == "typed" and column.logical != other.logical and "dictionary" not in column.type:
            yield Difference(f"logical type {column.logical or 'none'} became {other.logical or 'none'}", repr(column.name), name)


def agrees(source, target, one, two) -> bool:
    """Reports whether an input cell, in the form that its format stores, equals an output cell."""
    if source == "example":
        return _of_feature(target, one, two)
    if source == "mds" and target == "example" and not isinstance(one, bytes) and two and isinstance(two[0], bytes):
        if _json_is(one, _parsed(two[0].decode(errors="replace"))):
            return True
    if target == "example":
        return _is_feature(one, two) or source == "text" and one == "" and not two
    if target == "mds":
        # If all strings of a column are times, they become times, and MDS stores times as strings
        # in one fixed form.
        return _in_mds(one, two) or source == "text" and isinstance(one, str) and isinstance(two, str) and _in_text(one, two)
    if target == "bytes":
        if one is None or two is None or one == two:
            return one == two
        if isinstance(one, str) and one.encode() == two:
            return True
        # Programs read samples with Python's json module, so ferry writes NaN and infinities as the
        # words that the module uses.
        text = re.sub(r"(?<=[\[:,])(-?Infinity|NaN)(?=[],}])", r'"\1"', two.decode(errors="replace"))
        if source == "json" and _json_in_text(one, text):
            return True
        # Values other than bytes, text and numbers are stored as JSON.
        return _in_text(one, text) or not isinstance(one, (bytes, str)) and text[:1] == '"' and _in_text(one, json.loads(text))
    if source == "mds" and isinstance(two, str) and isinstance(one, (int, Decimal, dict, list)):
        return spells(one, two)
    if source == "mds" and isinstance(two, str) and (one is None or isinstance(one, str)) and one != two:
        return two == _json_text(one)
    if source in ("typed", "bytes", "mds"):
        if target == "typed":
            return same(one, two)
        if target == "json":
            return reads_as(one, two)
        return one is None and two is None or one is not None and two is not None and spells(one, two)
    if source == "json":
        return reads_as(two, one) if target == "typed" else _json_is(one, two) if target == "json" else _json_in_text(one, two)
    if two is None or one in (None, ""):
        return two is None and one in (None, "") or two == one
    if target == "typed":
        return spells(two, one)
    if target == "json":
        if isinstance(two, Decimal) and re.search("[.eE]", one):
            # A number with a fraction is a float, written with just enough digits to identify it.
            return _number(one) == float(two)
        return _in_text(one, two) if isinstance(two, str) else spells(two, one)
    return one == two or _in_text(one, two)


def _in_text(one, text):
    if isinstance(one, str):
        words = one.lower() == text.lower() and text in ("true", "false")
        number, instant = _number(one), instant_of(one)
        return one == text or words or number is not None and number == _number(text) or (
            instant is not None and instant == instant_of(text))
    return isinstance(one, bytes) and one == text.encode() or spells(one, text)


def _has_no_texts(column):
    found = [cell.decode(errors="replace") for cell in column.cells if cell is not None]
    return all(_number(text) is not None or instant_of(text) or text in ("true", "false") or is_clock(text) for text in found)


def _json_text(value):
    return json.dumps(value, ensure_ascii=False)


def _number(text):
    try:
        number = float(text) if "_" not in text else None
        return "NaN" if number != number else number
    except ValueError:
        return None


def _json_is(one, two):
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_json_is(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_json_is, one, two))
    if isinstance(one, Decimal) and isinstance(two, (int, Decimal)) and not isinstance(two, bool):
        return same_number(one, Decimal(two))
    return isinstance(one, bool) == isinstance(two, bool) and one == two


def _json_in_text(one, two):
    if one is None or two is None:
        return one is two
    # In a column with floats, whole numbers become floats.
    return spells(one, two) or isinstance(one, (int, list, dict)) and _json_is(one, _parsed(two))


def _parsed(text):
    try:
        return json_value(text)
    except ValueError:
        return None


def _in_mds(one, two):
    """Compares values with those of MDS, which stores booleans as 0 and 1. Nulls are a loss."""
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(_in_mds(one[key], two[key]) for key in one)
    if isinstance(one, (int, Decimal)) and isinstance(two, float) and not isinstance(one, bool):
        return same_number(Decimal(one), Decimal(repr(two)))
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_in_mds, one, two))
    if isinstance(one, bool):
        return two == int(one)
    if one is None or two is None or same(one, two):
        return one is two or one is not None and two is not None
    if isinstance(two, str):
        return spells(one, two)
    if isinstance(one, str) and one.lower() in ("true", "false"):
        return two == (one.lower() == "true")
    return spells(two, one) if isinstance(one, str) else reads_as(one, two)


def _features(columns):
    """Splits columns of structs into one column per field, as TFRecord features are."""
    found = []
    for column in columns:
        if any(column.cells) and all(cell is None or isinstance(cell, dict) for cell in column.cells):
            names = list(dict.fromkeys(name for cell in column.cells if cell for name in cell))
            inner = [Column(f"{column.name}.{n}", [cell.get(n) if cell else None for cell in column.cells], column.type) for n in names]
            found += _features(inner)
        else:
            found.append(column)
    return found


def _is_feature(one, two):
    one, two = [] if one is None else one, two or []
    one = one if isinstance(one, list) else [one]
    return len(one) == len(two) and all(map(_is_in_feature, one, two))


def _is_in_feature(one, two):
    if isinstance(one, bool):
        return two == int(one)
    if isinstance(one, (Date, Time, Timestamp, Duration)):
        # Times may be stored as integers in the unit of the column.
        units = one.days if isinstance(one, Date) else one.ns
        return two in [units, units * 86_400_000, *(units // unit for unit in UNITS.values())]
    if isinstance(one, str) and isinstance(two, (int, float)):
        if one.lower() in ("true", "false"):
            return two == (one.lower() == "true")
        return spells(two, one)
    if isinstance(one, Decimal) and isinstance(two, float):
        return float(one) == two or np.float32(float(one)) == np.float32(two)
    if isinstance(two, bytes):
        return isinstance(one, bytes) and one == two or isinstance(one, str) and one.encode() == two or (
            not isinstance(one, (str, bytes)) and one is not None and spells(one, two.decode(errors="replace")))
    return type(one) is type(two) and (same(one, two) or isinstance(one, float) and np.float32(one) == two)


def _of_feature(target, one, two):
    """Compares features, which are lists. ferry reads scalars if each list has at most one value."""
    if isinstance(two, str) and target == "text" and isinstance(one, list) and two.startswith("["):
        two = json_value(two)
    if not isinstance(two, list):
        one = one[0] if isinstance(one, list) and one else one or None
    inner = target
    if target == "example":
        return same(one or [], two or [])
    if one is None or two is None:
        return not one and not two
    if isinstance(one, list):
        return len(one) == len(two) and all(_of_feature(target if target != "text" else "json", [a], b) for a, b in zip(one, two))
    return agrees("typed", inner, one, two)


def _kind(name: str) -> str:
    """Returns a type without the parts that do not affect its values: sizes, field names, alternative spellings."""
    name = re.sub(r"large_|_view|fixed_size_|\bnot null\b|, ordered=\d|ordered=\d", "", name)
    name = re.sub(r"(?:(?<=<)|(?<=, )|^)[^<>,]*?: ", "", name)
    return re.sub(r"\[\d+\]", "[n]", re.sub(r"\(\d+, -?\d+\)", "", name)).replace(" ", "")[:60]


def _how(one, two):
    """Returns a word for the kind of change, so that differences with the same cause are grouped."""
    for value in (one, two):
        while isinstance(value, (list, Map)) and value:
            value = value[0] if isinstance(value, list) else value.entries
    if two is None:
        return ": a value became null"
    if one is None:
        return ": a null became a value"
    if isinstance(two, str) and ("ERROR" in two or "invalid" in two):
        return ": the text of an error"
    return "" if type(one) is type(two) else f": {type(one).__name__} as {type(two).__name__}"


def models(target: str, expected: dict, found: dict, counts: Counter):
    """Yields the differences between two models, which are tensors by name.

    The comparison ignores separators in names. A tensor may also be found under one of its aliases,
    such as a variable's own name.
    """
    alike = Counter(map(flat, found))
    plain = {flat(name) if alike[flat(name)] == 1 else name: tensor for name, tensor in found.items()}
    meet = Counter(map(flat, expected))
    own = Counter(flat(alias) for tensor in expected.values() for alias in tensor.aliases)
    for name, tensor in expected.items():
        counts[tensor.dtype] += tensor.elements
        names = (name, flat(name), name.replace("/", "."), *tensor.aliases)
        places = [name, flat(name), *(flat(alias) for alias in tensor.aliases if own[flat(alias)] == 1)]
        # If several names differ only in their separators, ferry may add a suffix to some of them
        # in the output.
        places += [place for place in plain if meet[flat(name)] > 1 and plain[place].equals(tensor) and place.startswith(flat(name))]
        # A name that belongs to a different tensor is not a candidate.
        places = [place for place in places if place == name or place not in expected]
        other = next((plain.pop(place) for place in places if place in plain), None)
        if other is None:
            yield Difference("a tensor is missing", f"{name}: {tensor}", names)
        elif tensor.dtype in BLOCKS and other.dtype == "U8":
            # Formats without blocks store the bytes of a row in the last dimension.
            if tensor.data != other.data:
                yield Difference(f"{tensor.dtype}: different bytes", f"{name}: {tensor} became {other}", names)
        elif tensor.dtype.startswith("key<") and target != "orbax" and other.dtype == "U32" and tensor.data == other.data:
            # Only Orbax has typed keys.
            continue
        elif not tensor.equals(other):
            shapes = "" if tensor.shape == other.shape else f": {len(tensor.shape)} dimensions became {len(other.shape)}"
            yield Difference(f"{tensor.dtype} became {other.dtype}{shapes}", f"{name}: {tensor} became {other}"[:600], names)
    # Quantized torch tensors become integers, scales and zero points.
    quantized = tuple(f"{flat(name)}." for name, tensor in expected.items() if tensor.dtype.startswith("torch.q"))
    for name in plain:
        if flat(name).startswith(quantized):
            continue
        yield Difference("a tensor that is not in the input", name, (name,), ("name", "alias"))


BLOCKS = {"Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL", "TQ1_0", "MXFP4"}


def flat(name: str) -> str:
    return re.sub(r"[/.]+", ".", name).strip(".")
