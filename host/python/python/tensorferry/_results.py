"""What the engine's answers are made of. Each has the fields of its document as attributes."""

from __future__ import annotations

from ._errors import in_python


class _Document:
    """A document of the engine: its entries are attributes, and `as_dict()` gives them back. What another document of its
    kind has, and this one lacks, is `None`."""

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
        """The entries, as JSON has them."""
        return dict(self._entries)


class Loss(_Document):
    """Something that could not be carried: `kind`, `severity`, `asked`, `what`, `why`."""

    __slots__ = ()


class Histogram(_Document):
    """64 bins: `edges`, of which there are 65, and `counts`, as `numpy.histogram` gives them."""

    __slots__ = ()


class Statistics(_Document):
    """What the values of a tensor come to: `count`, `finite`; of the finite ones `min`, `max`, `mean`, `std`; `zeros`,
    `nan`, `posinf`, `neginf`, `subnormals`, `saturated`; `zero_rows`, where rows of zeros were looked for; `histogram`, if
    it was asked for; `dequantized`, for what quantised numbers stand for. Of strings: `count`, `empty`, `min_length`,
    `max_length`, `mean_length`, `total_length`, in bytes. `problem` says why there are none of these."""

    __slots__ = ()


def statistics(found):  # type: ignore[no-untyped-def]
    """A tensor's statistics, of the engine's document."""
    entries = {"zero_rows": None, "histogram": None, "dequantized": False, "problem": None, **found}
    for key in ("min", "max", "mean", "std"):
        if isinstance(entries.get(key), str):
            # JSON has no number for it.
            entries[key] = float(entries[key])
    if entries["histogram"]:
        entries["histogram"] = Histogram(entries["histogram"])
    return Statistics(entries)


class TensorInfo(_Document):
    """A tensor without its data: `name`, `dtype`, `shape`, `nbytes`, `tied_to`."""

    __slots__ = ()


class ColumnInfo(_Document):
    """A column of records: `name`, `type`, and `shape` where each value has one."""

    __slots__ = ()
    _optional = frozenset(("shape",))


class Report(_Document):
    """What a conversion came to."""

    __slots__ = ()


class Inspection(_Document):
    """What an input holds, without its data."""

    __slots__ = ()


class Difference(_Document):
    """One difference: its `kind`, the `name` of the tensor or column, and what each side has.

    Where both sides have numbers and the same shape: `elements` of `of` differ, by `largest` at `largest_at` (whose
    numbers are `largest_values`), and by `relative` at `relative_at` of the larger number; `nan` of them are NaN on one
    side; `cosine` is that of the angle between the two. Where the values of a column differ: in how many `records`, and
    the `first` of them, whose values are `a` and `b`. What a difference has nothing to say of is `None`.
    """

    __slots__ = ()
    _optional = frozenset(
        "a b attribute elements of nan largest largest_at largest_values relative relative_at relative_values cosine "
        "records first".split()
    )


class Differences(_Document):
    """What a comparison found: `equal`, `differences`, of tensors the worst first; how many `tensors` were compared, or
    how many `columns`, and the `records` of both sides."""

    __slots__ = ()
    _optional = frozenset(("tensors", "columns", "records"))

    def __bool__(self) -> bool:
        raise TypeError("ask for .equal: whether differences are true, or their absence is, nobody remembers")


class Verdict(_Document):
    """What became of an output since its receipt was written: its `verdict`; what is wrong in `problems`, or why nobody can
    say, in `error`; the `receipt`, and how many `files`, `tensors`, `records` and `bytes` were held against it, which are
    `None` where there is none."""

    __slots__ = ()
    _optional = frozenset(("receipt", "problems", "error", "files", "tensors", "records", "bytes"))


class Format(_Document):
    """A format that can be used."""

    __slots__ = ()


class RunSummary(_Document):
    """What a run of a manifest came to; of a dry run, what it would do: its `plan` alone."""

    __slots__ = ()
    _optional = frozenset(("plan",))


class StateObject:
    """An object of a checkpoint's state that only its own format understands: it is shown, and nothing of it runs.

    - `kind`: its class or function, `"torch.optim.adam.Adam"` say
    - `parts`: what it is made of
    """

    __slots__ = ("kind", "parts")

    def __init__(self, kind: str, parts: tuple[object, ...]) -> None:
        self.kind = kind
        self.parts = parts

    def __repr__(self) -> str:
        return f"<{self.kind or 'object'} of {len(self.parts)} parts>"


def losses(found: list[dict[str, object]]) -> tuple[Loss, ...]:
    """Losses of a document."""
    return tuple(Loss({**loss, "why": in_python(str(loss["why"]))}) for loss in found)


def report(found: dict[str, object]) -> Report:
    """A report of a document."""
    notes = [in_python(note) for note in found["notes"]]  # type: ignore[attr-defined]
    return Report({**found, "notes": notes, "losses": losses(found["losses"])})  # type: ignore[arg-type]
