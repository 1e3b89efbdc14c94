"""Results of the engine. Each has the fields of a JSON document as attributes."""

from __future__ import annotations

from ._errors import in_python


class _Document:
    """A JSON document of the engine, with its entries as attributes.

    An optional entry that is missing is `None`.
    """

    __slots__ = ("_entries",)
    _optional: frozenset[str] = frozenset()

    def __init__(self, entries: dict[str, object]) -> None:
        self._entries = entries

    def __getattr__(self, name: str) -> object:
        if not name.startswith("_"):
            try:
                return self._entries[name]
            except KeyError:
                if name in self._optional:
                    return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._entries, *self._optional})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._entries == self._entries

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self._entries,)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self._entries.items())
        return f"{type(self).__name__}({told})"

    def as_dict(self) -> dict[str, object]:
        """Returns the entries as a dictionary, as in the JSON document."""
        return dict(self._entries)


class Loss(_Document):
    """Something that could not be converted: `kind`, `severity`, `asked`, `what` and `why`."""

    __slots__ = ()


class Histogram(_Document):
    """A histogram with 64 bins, as returned by `numpy.histogram`: 65 `edges` and 64 `counts`."""

    __slots__ = ()


class Statistics(_Document):
    """Statistics of a tensor.

    Attributes:
        count: The number of values.
        finite: The number of finite values.
        min, max, mean, std: Statistics of the finite values.
        zeros, nan, posinf, neginf, subnormals, saturated: The number of such values.
        zero_rows: The number of rows that contain only zeros, if they were counted.
        histogram: A `Histogram`, if one was requested.
        dequantized: Whether these are the statistics of dequantized values.
        empty, min_length, max_length, mean_length, total_length: For strings, the number of empty strings, and lengths
            in bytes.
        problem: The reason for missing statistics.
    """

    __slots__ = ()


def statistics(found):  # type: ignore[no-untyped-def]
    """Returns the statistics of a tensor from the engine's document."""
    entries = {"zero_rows": None, "histogram": None, "dequantized": False, "problem": None, **found}
    for key in ("min", "max", "mean", "std"):
        if isinstance(entries.get(key), str):
            # JSON has no infinities or NaN, so the document contains them as strings.
            entries[key] = float(entries[key])
    if entries["histogram"]:
        entries["histogram"] = Histogram(entries["histogram"])
    return Statistics(entries)


class TensorInfo(_Document):
    """A tensor without its data: `name`, `dtype`, `shape`, `nbytes` and `tied_to`."""

    __slots__ = ()


class ColumnInfo(_Document):
    """A column of records: `name`, `type`, and `shape` if each value has one."""

    __slots__ = ()
    _optional = frozenset(("shape",))


class Report(_Document):
    """The result of a conversion."""

    __slots__ = ()


class Inspection(_Document):
    """The description of an input without its data."""

    __slots__ = ()


class Difference(_Document):
    """A difference between two inputs. Attributes that do not apply to its `kind` are `None`.

    Attributes:
        kind: The kind of difference.
        name: The name of the tensor or column.
        a, b: The contents of each input.
        attribute: The name of the attribute, for the kind `"attribute"`.
        elements, of: For numbers of the same shape, how many elements differ, and how many there are.
        largest, largest_at, largest_values: The largest absolute difference, its position, and both numbers.
        relative, relative_at, relative_values: The largest difference relative to the larger number, its position, and
            both numbers.
        nan: The number of elements that are NaN in only one of the inputs.
        cosine: The cosine of the angle between the two tensors.
        records, first: For a column, how many records differ, and the first of them. `a` and `b` are its values.
    """

    __slots__ = ()
    _optional = frozenset(
        "a b attribute elements of nan largest largest_at largest_values relative relative_at relative_values cosine "
        "records first".split()
    )


class Differences(_Document):
    """The result of a comparison.

    Attributes:
        equal: Whether the inputs are equal.
        differences: The differences. The worst tensors come first.
        tensors: The number of compared tensors.
        columns: The number of compared columns.
        records: The number of records of both inputs.
    """

    __slots__ = ()
    _optional = frozenset(("tensors", "columns", "records"))

    def __bool__(self) -> bool:
        raise TypeError("the truth value of Differences is ambiguous: use .equal")


class Verdict(_Document):
    """The state of an output compared with its receipt. Attributes are `None` without a receipt.

    Attributes:
        verdict: `"ok"`, `"changed"`, `"missing"`, `"unreadable"` or `"no receipt"`.
        problems: The differences.
        error: Why the output could not be checked.
        receipt: The path of the receipt.
        files, tensors, records, bytes: How many of each were checked against the receipt.
    """

    __slots__ = ()
    _optional = frozenset(("receipt", "problems", "error", "files", "tensors", "records", "bytes"))


class Format(_Document):
    """An available format."""

    __slots__ = ()


class RunSummary(_Document):
    """The result of running a manifest. After a dry run it has only a `plan`."""

    __slots__ = ()
    _optional = frozenset(("plan",))


class StateObject:
    """An object in a checkpoint's state that only its own format can interpret. Its code is never run.

    Attributes:
        kind: The class or function of the object, such as `"torch.optim.adam.Adam"`.
        parts: The values that the object is made of.
    """

    __slots__ = ("kind", "parts")

    def __init__(self, kind: str, parts: tuple[object, ...]) -> None:
        self.kind = kind
        self.parts = parts

    def __repr__(self) -> str:
        return f"<{self.kind or 'object'} of {len(self.parts)} parts>"


def losses(found: list[dict[str, object]]) -> tuple[Loss, ...]:
    """Returns the losses of a document."""
    return tuple(Loss({**loss, "why": in_python(str(loss["why"]))}) for loss in found)


def report(found: dict[str, object]) -> Report:
    """Returns the report of a document."""
    notes = [in_python(note) for note in found["notes"]]  # type: ignore[attr-defined]
    return Report({**found, "notes": notes, "losses": losses(found["losses"])})  # type: ignore[arg-type]
