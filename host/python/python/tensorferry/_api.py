"""The functions of the package."""

from __future__ import annotations

import os

from ._engine import engine
from ._errors import Error, in_python, not_found, of_convert, reword, unsupported, usage
from ._model import Model
from ._progress import listener
from ._results import (
    ColumnInfo,
    Difference,
    Differences,
    Format,
    Inspection,
    Report,
    RunSummary,
    TensorInfo,
    Verdict,
    losses,
    report,
)
from ._scan import Scan


def open(path, part=None, *, format=None, mmap=False, checksums=True, **options):  # type: ignore[no-untyped-def]
    """Opens a file or folder of tensors, whatever its format; no tensor's data is read yet.

    - `part`: a branch of it, `"model.encoder"` say, or `"."` for all; otherwise, of a checkpoint with optimizer state,
      the model is taken, and what was left out is in `losses`
    - `format`: the format's id, instead of finding out
    - `mmap`: arrays of whole tensors are mappings of the file where it has their bytes as they are. Nothing is read
      before it is used; what is written to them stays in this process. A file that shrinks meanwhile may end the
      process, one that is written to changes the arrays: not for network file systems. Otherwise every array is a copy
    - `options`: of the format's reader, as `formats()` lists them
    - `checksums`: a whole tensor that is read for the first time is compared with the checksums that the format keeps of
      it, as `convert` does, and `MalformedError` says that one is wrong; parts of tensors and mappings are not compared.
      `False` saves the time, of torch's and TensorFlow's files

    Raises `NotFoundError`, `MalformedError`, `UnsupportedError`, `LimitError`, `UsageError`. Whatever reads a tensor
    later raises `TransientError` if its file has been written to meanwhile.
    """
    with _Place(path) as place:
        opened = engine().open(_input(place.path, format, part, options), bool(checksums))
    return Model(opened, (_reopen, (place.path, part, format, mmap, checksums, options)), bool(mmap))


def _reopen(path, part, format, mmap, checksums, options):  # type: ignore[no-untyped-def]
    return open(path, part, format=format, mmap=mmap, checksums=checksums, **options)


def scan(  # type: ignore[no-untyped-def]
    path, steps=(), columns=None, *, part=None, format=None, strict=False, allow=(), **options
):
    """Opens a file or folder of records: TFRecord, WebDataset, MDS, JSON lines, Parquet, Arrow, CSV.

    - `steps`: on the records, as `ferry steps` lists them: `["filter:label<5", "take:100"]`
    - `columns`: only these, after the steps, in this order
    - `part`: one split of a folder that has some, `"train"`
    - `strict`: a loss that is known now is an error, unless `allow` has its kind. With `allow=["input"]`, entries of a
      folder that cannot be read, such as a link whose target is missing, are a loss and not an error
    - `options`: of the format's reader

    Raises `UsageError` for a step that cannot be done with these columns, and as `open` does.
    """
    steps = list(steps) if not isinstance(steps, str) else steps
    with _Place(path) as place:
        asked, texts, columns = _records(place.path, steps, columns, part, format, options)
        policy = _losses(strict, allow)
        opened = engine().scan(asked, texts, columns, policy)
    return Scan(opened, (_rescan, (place.path, tuple(steps), columns, part, format, policy, options)))


def _rescan(path, steps, columns, part, format, policy, options):  # type: ignore[no-untyped-def]
    strict, allow = policy
    return scan(path, steps, columns, part=part, format=format, strict=strict, allow=allow, **options)


def _losses(strict, allow):  # type: ignore[no-untyped-def]
    """Which losses are errors, as the engine takes it."""
    return bool(strict), _texts(allow, "allow")


def _records(path, steps, columns, part, format, options):  # type: ignore[no-untyped-def]
    """What the engine is asked for to scan an input: the input, the steps with the choice of columns, the columns."""
    texts = _texts(steps, "steps")
    if columns is not None:
        columns = list(columns) if not isinstance(columns, str) else columns
        quoted = " ".join(_quoted(name) for name in _texts(columns, "columns"))
        if not quoted:
            raise usage("columns names none: leave it away for all of them")
        texts.append('map:select,"columns=' + quoted.replace('"', '""') + '"')
    return _input(path, format, part, options), texts, columns


def _quoted(name):  # type: ignore[no-untyped-def]
    if not (name.startswith('"') or any(c.isspace() for c in name)):
        return name
    if '"' in name:
        raise usage("a column whose name has spaces and quotes cannot be asked for by name", found=repr(name))
    return f'"{name}"'


def convert(  # type: ignore[no-untyped-def]
    src,
    dst,
    *,
    to=None,
    format=None,
    part=None,
    steps=(),
    reader=None,
    writer=None,
    verify=False,
    strict=False,
    allow=(),
    receipt=False,
    force=False,
    sync=False,
    dry_run=False,
    allow_empty=False,
    follow_links=False,
    progress=False,
):
    """Converts a file or folder into another, in bounded memory; the output is whole or absent. Gives a `Report`.

    - `to`: the output's format, where its name does not say it; `format`: the input's
    - `part`: a branch of the input; `steps`: as `ferry steps` lists them, `["cast:bf16"]`
    - `reader`, `writer`: options of the formats, `{"max_shard_size": "2GB"}`; of one that is given several times, a list
    - `verify`: reads the output back before it becomes visible, and compares every value
    - `strict`: a loss is an error, unless `allow` has its kind
    - `receipt`: writes one beside the output, for `verify()`
    - `follow_links`: reads weights and records from where links in the input's folder lead outside of it
    - `force`: replaces what is there; `sync`: outlasts a power cut; `dry_run`: plans, and writes nothing
    - `progress`: `True` for a bar, or a function of bytes done, of how many, and `"read"`, `"copy"` or `"check"`.
      What it raises ends the conversion, as Ctrl-C does, and nothing of the output is left; the last call alone, which
      says that all is done, comes when the output is there
    """
    how = (
        _texts(steps, "steps"),
        bool(verify),
        _losses(strict, allow),
        bool(receipt),
        bool(dry_run),
        bool(allow_empty),
    )
    asked = _input(src, format, part, {**(reader or {}), "follow_links": follow_links})
    show, end = listener(progress)
    try:
        return report(engine().convert(asked, _output(dst, to, writer, force, sync), how, show))
    finally:
        end()


def inspect(path, part=None, *, format=None, **options):  # type: ignore[no-untyped-def]
    """What an input holds, without its data: names, dtypes and shapes of tensors, or columns of records.

    Gives an `Inspection`, whose `tensors` are `TensorInfo` by name. All of the input is seen unless `part` names a
    branch.
    """
    seen = engine().inspect(_input(path, format, part, options))
    tensors = {tensor["name"]: TensorInfo({**tensor, "shape": tuple(tensor["shape"])}) for tensor in seen["tensors"]}
    columns = {column["name"]: ColumnInfo(column) for column in seen["columns"]}
    return Inspection({**seen, "tensors": tensors, "columns": columns, "losses": losses(seen["losses"])})


def diff(  # type: ignore[no-untyped-def]
    a,
    b,
    *,
    part=None,
    steps=(),
    atol=None,
    rtol=None,
    strict=False,
    allow=(),
    follow_links=False,
    progress=False,
    **options,
):
    """How two inputs differ, whatever their formats: names, dtypes, shapes and every value.

    - `steps`: on `a`, before it is compared
    - `strict`, `allow`: as for `scan`, of both inputs
    - `atol`, `rtol`: numbers are the same if |a - b| <= atol + rtol x |b|; otherwise bit for bit

    Of tensors the worst difference comes first. Each whose numbers differ says how many `elements` do, how large the
    `largest` difference is and the largest `relative` one (over the larger of both numbers), where they are, and the
    `cosine` of the angle between the two. Numbers that JSON has not are texts: `"inf"`.
    """
    tolerance = None if atol is None and rtol is None else (float(atol or 0), float(rtol or 0))
    show, end = listener(progress)
    try:
        found = engine().diff(
            _path(a),
            _path(b),
            part,
            _options(options),
            _texts(steps, "steps"),
            tolerance,
            _losses(strict, allow),
            bool(follow_links),
            show,
        )
    finally:
        end()
    return _differences(found)


def check(path, expected, *, part=None, format=None, **options):  # type: ignore[no-untyped-def]
    """Whether an input has the tensors that are expected, by name, dtype and shape.

    `expected`: a JSON file as `ferry inspect --json` writes it, or a mapping of names to `(dtype, shape)`; `None`
    in either place is not compared.
    """
    asked = _input(path, format, part if part is not None else ".", options)
    if isinstance(expected, (str, os.PathLike)):
        return _differences(engine().check(asked, _existing(expected)))
    import json
    import tempfile

    tensors = {name: _expectation(name, facts) for name, facts in expected.items()}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"tensors": tensors}, file)
        file.flush()
        return _differences(engine().check(asked, file.name))


def _expectation(name, facts):  # type: ignore[no-untyped-def]
    dtype, shape = facts
    if dtype is not None and not isinstance(dtype, str):
        raise TypeError(f"{name!r} has a dtype's name, 'F32' say, or None, not {dtype!r}")
    return {"dtype": dtype, "shape": None if shape is None else [int(length) for length in shape]}


def verify(*outputs, quick=False, source=False, progress=False):  # type: ignore[no-untyped-def]
    """Holds outputs, or all outputs below folders, against the receipts that `convert(receipt=True)` wrote.

    Gives a `Verdict` for each: its `verdict` is `"ok"`, `"changed"`, `"missing"`, `"unreadable"` or `"no receipt"`.

    - `quick`: files only, not what a reader makes of them
    - `source`: also the files that they were made from
    """
    show, end = listener(progress)
    try:
        found = engine().verify([_path(path) for path in outputs], bool(quick), bool(source), show)
    finally:
        end()
    return [Verdict(verdict) for verdict in found]


def formats():  # type: ignore[no-untyped-def]
    """Every format that can be used, by its id, with its options."""
    return {found["id"]: Format(found) for found in engine().formats()}


def save(  # type: ignore[no-untyped-def]
    tensors, path, metadata=None, *, to=None, writer=None, force=False, sync=False, progress=False
):
    """Writes arrays of numpy, torch, jax, or of whoever has `__dlpack__`, under their names. Gives a `Report`.

    Nothing is copied but what does not lie side by side. Arrays that are the same memory are one tensor, if the format
    can say so. Lazy tensors of an opened input may be among them: those that are one there are one again, and whole ones
    are read as they are written, a window at a time; a part of one is read first. `save(model, path)` writes all tensors of
    an opened model with its metadata and state, as `convert` does; a dict of its tensors has neither.

    - `metadata`: texts by their keys
    - `to`, `writer`, `force`, `sync`, `progress`: as for `convert`

    Raises `UsageError`, for a name that says no format; `OutputExistsError`, for an output that is there already;
    `UnsupportedError`, for an array that is more than its numbers, or has none; `TypeError`, for what is no array or no
    name. What the format cannot hold is in the report's `losses`, and warned of.
    """
    if not hasattr(tensors, "items"):
        hint = ": state_dict() gives one" if hasattr(tensors, "state_dict") else ""
        raise TypeError(f"tensors is a mapping of names to arrays, not a {type(tensors).__name__}{hint}")
    arrays = [(_name(name), _array(name, array)) for name, array in tensors.items()]
    show, end = listener(progress)
    try:
        model = tensors._raw if isinstance(tensors, Model) else None
        output = _output(path, to, writer, force, sync)
        done = _told(engine().save(arrays, output, _metadata(metadata), model, show))
    except Error as error:
        reword(error, of_convert)
        raise
    finally:
        end()
    if not arrays:
        _warn(f"{done.output} has no tensors: none were given")
    return done


def write(data, path, *, to=None, writer=None, force=False, sync=False, progress=False):  # type: ignore[no-untyped-def]
    """Writes the records of whoever has `__arrow_c_stream__`: tables of pyarrow, polars, pandas, duckdb, a `Scan`.

    Gives a `Report`; the stream is pulled once, in bounded memory. Dictionaries, of a pandas `Categorical` say, stay
    where the format has some. What a `Scan` raises is raised; of another stream that fails, `UsageError` has the text.
    """
    show, end = listener(progress)
    before = data.error if isinstance(data, Scan) else None
    try:
        done = _told(engine().write(data, _output(path, to, writer, force, sync), show))
    except Error as error:
        # A stream hands on a text alone; a scan knows more.
        cause = data.error if isinstance(data, Scan) else None
        if cause is not None and str(cause) != str(before):
            raise cause from None
        reword(error, of_convert)
        raise
    finally:
        end()
    if not done.records and not hasattr(data, "__len__"):
        _warn(f"{done.output} has no records: the stream gave none, or was read before")
    return done


def _told(found):  # type: ignore[no-untyped-def]
    """A report; what the format could not hold of what was given is warned of, since few look into reports."""
    losses = [{**loss, "why": of_convert(in_python(loss["why"]))} for loss in found["losses"]]
    done = report({**found, "losses": losses})
    lost = [loss for loss in done.losses if loss.severity == "lost"]
    if lost:
        more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        _warn(f"{done.output} lacks {lost[0].kind} {lost[0].what!r}: {lost[0].why}{more}", stacklevel=4)
    return done


def _warn(text, stacklevel=3):  # type: ignore[no-untyped-def]
    from warnings import warn

    warn(text, stacklevel=stacklevel)


def run(  # type: ignore[no-untyped-def]
    manifest, *, variables=None, jobs=None, fail_fast=False, dry_run=False, report=None, progress=None
):
    """Does the jobs of a manifest, each in a process of its own; again: what is left, and what has changed.

    Gives a `RunSummary`: that a job failed is in its `totals` and `jobs`, and raises nothing. `progress` is a function of
    each event, a mapping.
    """
    given = {str(key): str(value) for key, value in (variables or {}).items()}
    folder = None if report is None else os.fspath(report)
    how = (_existing(manifest), given, jobs, bool(fail_fast), bool(dry_run), folder)
    return RunSummary(engine().run(how, progress))


def _path(path):  # type: ignore[no-untyped-def]
    return os.fsdecode(os.fspath(path))


class _Place:
    """Where an input that stays open lies: its path holds wherever this process, or the one that it is pickled to, works
    later. Why it cannot be opened is told with the path as it was given."""

    def __init__(self, path):  # type: ignore[no-untyped-def]
        self.path = _path(path)
        self._folder = ""
        if self.path and not os.path.isabs(self.path) and "://" not in self.path:
            self._folder = os.path.join(os.getcwd(), "")
            # As the system follows it: `abspath` would leave out what `..` comes back from, which may be a link.
            self.path = self._folder + self.path

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self

    def __exit__(self, _, error, __):  # type: ignore[no-untyped-def]
        if self._folder and isinstance(error, Error):
            reword(error, lambda text: text.replace(self._folder, ""))


def _existing(path):  # type: ignore[no-untyped-def]
    path = _path(path)
    if not os.path.lexists(path):
        raise not_found(path)
    return path


def _input(path, format, part, options):  # type: ignore[no-untyped-def]
    # It may be a glob, or what the names of a set begin with: the engine says what is not there.
    options = dict(options)
    follow_links = bool(options.pop("follow_links", False))
    return _path(path), format, None if part is None else str(part), _options(options), follow_links


def _output(path, to, writer, force, sync):  # type: ignore[no-untyped-def]
    return _path(path), to, _options(writer or {}), bool(force), bool(sync)


def _options(options):  # type: ignore[no-untyped-def]
    def text(value):  # type: ignore[no-untyped-def]
        if isinstance(value, bool):
            return "true" if value else "false"
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)

    given = []
    for key, value in options.items():
        values = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
        given += [(key, text(one)) for one in values]
    return given


def _texts(given, what):  # type: ignore[no-untyped-def]
    if isinstance(given, str):
        raise TypeError(f"{what} is a list of texts, not one text: [{given!r}]")
    return [str(text) for text in given]


def _metadata(metadata):  # type: ignore[no-untyped-def]
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata is texts by their keys, and {key!r} has {value!r}")
    return dict(metadata or {})


def _name(name):  # type: ignore[no-untyped-def]
    if not isinstance(name, str):
        raise TypeError(f"tensors go by names, and {name!r} is none")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise usage("the name is no text: it has half of a character", tensor=name) from None
    return name


def _array(name, array):  # type: ignore[no-untyped-def]
    """What the engine takes: its own tensor, bytes with dtype and shape, or an object with `__dlpack__`."""
    from ._dtypes import name_of

    module = type(array).__module__.partition(".")[0]
    if hasattr(array, "detach") and hasattr(array, "cpu"):
        if getattr(array, "is_meta", False):
            raise unsupported("a tensor of torch's device meta has no numbers", name)
        import torch

        own = type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        if own or array.is_nested:
            hint = "full_tensor() or to_local()" if hasattr(array, "full_tensor") else "save the tensors in it"
            raise unsupported(f"a {type(array).__name__} has no memory of its own", name, hint)
        array = array.detach().cpu()
        # Conjugates and negatives that torch has not written out.
        array = array.resolve_conj().resolve_neg()
        if not array.is_sparse and array.layout == torch.strided:
            return _torch_array(name, array)
        raise unsupported(f"a tensor of layout {array.layout} has no plain memory", name, "to_dense() makes some")
    if hasattr(array, "_raw") and module == "tensorferry":
        is_whole = array._part() is None and list(array.shape) == array._raw.shape
        return array._raw if is_whole else (array.bytes(), array.dtype, list(array.shape))
    if hasattr(array, "__array_interface__") or module in ("jax", "jaxlib") or hasattr(array, "__array__"):
        import numpy

        if isinstance(array, numpy.ma.MaskedArray):
            hint = "filled(value) makes numbers of all of them, .mask is an array of its own"
            raise unsupported("a masked array is more than its numbers", name, hint)
        array = numpy.asarray(array)
        dtype = name_of(array.dtype.name)
        if dtype is None:
            raise unsupported(f"no format has numpy's dtype {array.dtype}", name)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        array = array if array.flags.c_contiguous else numpy.ascontiguousarray(array)
        return array.reshape(-1).view(numpy.uint8), dtype, list(array.shape)
    if hasattr(array, "__dlpack__"):
        return array
    raise TypeError(f"{name!r} is no array: a {type(array).__name__}")


def _torch_array(name, array):  # type: ignore[no-untyped-def]
    import torch

    if array.is_quantized:
        raise unsupported("a quantized tensor is more than its integers: int_repr() gives these", name)
    unsigned = (torch.uint16, torch.uint32, torch.uint64)
    if array.dtype.is_floating_point and array.element_size() == 1 or array.dtype in unsigned:
        from ._dtypes import TABLE

        # Dtypes that torch lends by no DLPack of every version.
        named = {torch_name: known for known, (_, torch_name) in reversed(TABLE.items()) if torch_name}
        known = named.get(str(array.dtype).removeprefix("torch."))
        if known is None:
            raise unsupported(f"no format has torch's dtype {array.dtype}", name)
        flat = array.contiguous().reshape(-1).view(torch.uint8)
        return flat.numpy(), known, list(array.shape)
    return array


def _differences(found):  # type: ignore[no-untyped-def]
    return Differences({**found, "differences": [Difference(one) for one in found["differences"]]})
