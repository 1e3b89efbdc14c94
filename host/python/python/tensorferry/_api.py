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


def open(path, part=None, *, from_=None, mmap=False, checksums=True, **options):  # type: ignore[no-untyped-def]
    """Opens a file or folder of tensors in any supported format, without reading tensor data.

    Args:
        path: A file, a folder or a URL.
        part: A branch of the input, such as `"model.encoder"`, or `"."` for everything. By default, if a checkpoint
            contains optimizer state, only its model is opened, and `losses` lists what was left out.
        from_: The id of the format. By default the format is detected.
        mmap: If true, arrays of whole tensors are memory mappings of the file where the file stores the bytes
            unchanged. Nothing is read until it is used, and writes to an array stay in this process. If the file
            shrinks while it is mapped, the process may crash; if the file is modified, the arrays change. Do not use
            `mmap` on network file systems. By default every array is a copy.
        checksums: If true, a whole tensor is checked against the checksums stored in the file when it is first read,
            as `convert` does. Parts of tensors and mappings are not checked. `False` saves this time for torch and
            TensorFlow files.
        follow_links: If true, links that lead outside the input folder are followed.
        **options: Options of the format's reader, as listed by `formats()`.

    Returns:
        A `Model`, which is a mapping of names to lazy tensors.

    Raises:
        NotFoundError: The path does not exist.
        MalformedError: The input violates the rules of its format. Reading a tensor later raises this error if a
            checksum is wrong.
        UnsupportedError: The input is valid, but this package cannot read it.
        LimitError: The input exceeds a limit.
        UsageError: An argument or option is wrong.

    Reading a tensor later raises `TransientError` if its file has been modified since it was opened.

    Example:
        >>> with tensorferry.open("model.safetensors") as model:
        ...     model["embed.weight"].numpy()
        array([[0., 1., 2.],
               [3., 4., 5.]], dtype=float32)
    """
    with _Place(path) as place:
        opened = engine().open(_input(place.path, from_, part, options), bool(checksums))
    return Model(opened, (_reopen, (place.path, part, from_, mmap, checksums, options)), bool(mmap))


def _reopen(path, part, from_, mmap, checksums, options):  # type: ignore[no-untyped-def]
    return open(path, part, from_=from_, mmap=mmap, checksums=checksums, **options)


def scan(  # type: ignore[no-untyped-def]
    path, steps=(), columns=None, *, part=None, from_=None, strict=False, allow=(), **options
):
    """Opens a file or folder of records: TFRecord, WebDataset, MDS, JSON lines, Parquet, Arrow or CSV.

    Args:
        path: A file, a folder or a URL.
        steps: Steps to apply to the records, as listed by `ferry steps`: `["filter:label<5", "take:100"]`.
        columns: The columns to keep after the steps, in this order. By default all columns are kept.
        part: A split of a folder that has several, such as `"train"`.
        from_: The id of the format. By default the format is detected.
        strict: If true, a loss that is known on opening is an error unless `allow` lists its kind.
        allow: Kinds of losses to accept. With `allow=["input"]`, folder entries that cannot be read, such as a link
            whose target is missing, are a loss instead of an error.
        follow_links: If true, links that lead outside the input folder are followed.
        **options: Options of the format's reader, as listed by `formats()`.

    Returns:
        A `Scan`, which any Arrow library can read.

    Raises:
        UsageError: A step cannot be applied to these columns, or an argument or option is wrong.
        NotFoundError: The path does not exist.
        MalformedError: The input violates the rules of its format.
        UnsupportedError: The input is valid, but this package cannot read it.
        LimitError: The input exceeds a limit.

    Example:
        >>> tensorferry.scan("rows.jsonl", ["filter:id<3"], columns=["text"]).to_pyarrow().read_all().to_pydict()
        {'text': ['one', 'two']}
    """
    steps = list(steps) if not isinstance(steps, str) else steps
    with _Place(path) as place:
        asked, texts, columns = _records(place.path, steps, columns, part, from_, options)
        policy = _losses(strict, allow)
        opened = engine().scan(asked, texts, columns, policy)
    return Scan(opened, (_rescan, (place.path, tuple(steps), columns, part, from_, policy, options)))


def _rescan(path, steps, columns, part, from_, policy, options):  # type: ignore[no-untyped-def]
    strict, allow = policy
    return scan(path, steps, columns, part=part, from_=from_, strict=strict, allow=allow, **options)


def _losses(strict, allow):  # type: ignore[no-untyped-def]
    """Returns the loss policy in the form that the engine accepts."""
    return bool(strict), _texts(allow, "allow")


def _records(path, steps, columns, part, format, options):  # type: ignore[no-untyped-def]
    """Returns the engine's arguments for a scan: the input, the steps with the column selection, and the columns."""
    texts = _texts(steps, "steps")
    if columns is not None:
        columns = list(columns) if not isinstance(columns, str) else columns
        quoted = " ".join(_quoted(name) for name in _texts(columns, "columns"))
        if not quoted:
            raise usage("columns is empty: omit it to keep all columns")
        texts.append('map:select,"columns=' + quoted.replace('"', '""') + '"')
    return _input(path, format, part, options), texts, columns


def _quoted(name):  # type: ignore[no-untyped-def]
    if not (name.startswith('"') or any(c.isspace() for c in name)):
        return name
    if '"' in name:
        raise usage("a column whose name contains both spaces and quotes cannot be selected by name", found=repr(name))
    return f'"{name}"'


def convert(  # type: ignore[no-untyped-def]
    src,
    dst,
    *,
    to=None,
    from_=None,
    part=None,
    steps=(),
    input_options=None,
    output_options=None,
    verify=False,
    strict=False,
    allow=(),
    receipt=False,
    force=False,
    sync=False,
    dry_run=False,
    allow_empty=False,
    companions=None,
    follow_links=False,
    progress=False,
):
    """Converts a file or folder to another format, in bounded memory.

    The output appears only when it is complete.

    Args:
        src: The input: a file, a folder or a URL.
        dst: The output.
        to: The id of the output format, if the name of the output does not imply it.
        from_: The id of the input format. By default the format is detected.
        part: A branch of the input.
        steps: Steps to apply, as listed by `ferry steps`: `["cast:bf16"]`.
        input_options: Options of the input format. Pass a list for an option that is given several times.
        output_options: Options of the output format: `{"max_shard_size": "2GB"}`.
        verify: If true, the output is read back before it becomes visible, and every value is compared.
        strict: If true, a loss is an error unless `allow` lists its kind.
        allow: Kinds of losses to accept.
        receipt: If true, a receipt for `verify()` is written next to the output.
        force: If true, an existing output is replaced.
        sync: If true, the output is flushed to disk, so that it survives a power failure.
        dry_run: If true, the conversion is planned but nothing is written.
        allow_empty: If true, an input that contains no tensors or records is accepted.
        companions: Globs for the files next to the weights that are copied, such as
            `["config.json", "tokenizer*"]`. `[]` copies none. By default, all files of a folder are copied,
            and no file next to an input that is a file.
        follow_links: If true, links that lead outside the input folder are followed for weights and records.
        progress: `True` shows a progress bar. A function is called with the bytes done, the total bytes, and `"read"`,
            `"copy"` or `"check"`. If the function raises an exception, the conversion ends as with Ctrl-C and leaves
            no output. The last call reports completion: at that time, the output already exists.

    Returns:
        A `Report`.

    Example:
        >>> report = tensorferry.convert("model.safetensors", "model.npz", steps=["cast:f16"])
        >>> report.tensors, report.bytes > 0
        (2, True)
    """
    how = (
        _texts(steps, "steps"),
        bool(verify),
        _losses(strict, allow),
        bool(receipt),
        bool(dry_run),
        bool(allow_empty),
        None if companions is None else _texts(companions, "companions"),
    )
    asked = _input(src, from_, part, {**(input_options or {}), "follow_links": follow_links})
    show, end = listener(progress)
    try:
        return report(engine().convert(asked, _output(dst, to, output_options, force, sync), how, show))
    finally:
        end()


def inspect(path, part=None, *, from_=None, **options):  # type: ignore[no-untyped-def]
    """Describes an input without reading its data: tensor names, dtypes and shapes, or the columns of records.

    Args:
        path: A file, a folder or a URL.
        part: A branch of the input. By default the whole input is described.
        from_: The id of the format. By default the format is detected.
        follow_links: If true, links that lead outside the input folder are followed.
        **options: Options of the format's reader, as listed by `formats()`.

    Returns:
        An `Inspection`, whose `tensors` map names to `TensorInfo`.

    Example:
        >>> tensorferry.inspect("model.safetensors").tensors["embed.weight"].shape
        (2, 3)
    """
    seen = engine().inspect(_input(path, from_, part, options))
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
    """Compares the names, dtypes, shapes and values of two inputs, of any formats.

    Args:
        a: The first input.
        b: The second input.
        part: A branch of the inputs.
        steps: Steps to apply to `a` before the comparison.
        atol: Absolute tolerance. Numbers are equal if |a - b| <= atol + rtol * |b|. If neither tolerance is given, bits
            are compared.
        rtol: Relative tolerance.
        strict: If true, a loss of either input is an error, as for `scan`.
        allow: Kinds of losses to accept, as for `scan`.
        follow_links: If true, links that lead outside the input folders are followed.
        progress: `True` shows a progress bar; a function is called as described for `convert`.
        **options: Options of the formats' readers.

    Returns:
        A `Differences`, which lists the worst tensors first. Each tensor whose numbers differ has the number of
        differing `elements`, the `largest` absolute difference, the largest `relative` difference (relative to the
        larger of the two numbers), their positions, and the `cosine` of the angle between the two tensors.
        Infinities and NaN are returned as strings such as `"inf"`.

    Example:
        >>> tensorferry.diff("model.safetensors", "model.safetensors").equal
        True
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


def check(path, expected, *, part=None, from_=None, **options):  # type: ignore[no-untyped-def]
    """Checks that an input contains the expected tensors, by name, dtype and shape.

    Args:
        path: A file, a folder or a URL.
        expected: A JSON file as written by `ferry inspect --json`, or a mapping of names to `(dtype, shape)`. `None`
            in place of a dtype or shape is not compared.
        part: A branch of the input. By default all tensors are compared.
        from_: The id of the format. By default the format is detected.
        **options: Options of the format's reader, as listed by `formats()`.

    Returns:
        A `Differences`.

    Example:
        >>> tensorferry.check("model.safetensors", {"embed.weight": ("F32", (2, 3)), "bias": ("F32", None)}).equal
        True
    """
    asked = _input(path, from_, part if part is not None else ".", options)
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
        raise TypeError(f"the dtype of {name!r} is a name such as 'F32', or None, not {dtype!r}")
    return {"dtype": dtype, "shape": None if shape is None else [int(length) for length in shape]}


def verify(*outputs, quick=False, source=False, progress=False):  # type: ignore[no-untyped-def]
    """Checks outputs, or all outputs in folders, against the receipts that `convert(receipt=True)` wrote.

    Args:
        *outputs: Outputs, or folders that contain outputs.
        quick: If true, only files are compared, not the tensors and records read from them.
        source: If true, the files that the outputs were made from are compared too.
        progress: `True` shows a progress bar; a function is called as described for `convert`.

    Returns:
        A `Verdict` for each output. Its `verdict` is `"ok"`, `"changed"`, `"missing"`, `"unreadable"` or
        `"no receipt"`.

    Example:
        >>> _ = tensorferry.convert("model.safetensors", "copy.gguf", receipt=True)
        >>> [verdict.verdict for verdict in tensorferry.verify("copy.gguf")]
        ['ok']
    """
    show, end = listener(progress)
    try:
        found = engine().verify([_path(path) for path in outputs], bool(quick), bool(source), show)
    finally:
        end()
    return [Verdict(verdict) for verdict in found]


def formats():  # type: ignore[no-untyped-def]
    """Returns all available formats with their options, by format id.

    Example:
        >>> [format.id for format in tensorferry.formats().values() if ".npz" in format.suffixes]
        ['numpy']
    """
    return {found["id"]: Format(found) for found in engine().formats()}


def save(  # type: ignore[no-untyped-def]
    tensors, path, metadata=None, *, to=None, output_options=None, force=False, sync=False, progress=False
):
    """Writes numpy, torch or jax arrays, or any objects with `__dlpack__`, under their names.

    Only arrays that are not contiguous are copied. Arrays that share the same memory become one tensor if the format
    supports it. Lazy tensors of an opened input are accepted too: tensors that are tied in the input stay tied, and
    whole tensors are streamed through a buffer of fixed size. A part of a lazy tensor is read into memory first.

    Args:
        tensors: A mapping of names to arrays. A `Model` is written with its metadata and state, as by `convert`; a
            dict of a model's tensors is written without them.
        path: The output.
        metadata: A mapping of strings to strings.
        to: The id of the output format, if the name of the output does not imply it.
        output_options: Options of the output format.
        force: If true, an existing output is replaced.
        sync: If true, the output is flushed to disk, so that it survives a power failure.
        progress: `True` shows a progress bar; a function is called as described for `convert`.

    Returns:
        A `Report`. Its `losses` list the content that the format could not store; lost data also causes a warning.

    Raises:
        UsageError: The format cannot be determined from the name of the output.
        OutputExistsError: The output already exists.
        UnsupportedError: An array stores more than numbers (for example, it is masked or quantized), or has no data.
        TypeError: A value is not an array, or a name is not a string.

    Example:
        >>> tensorferry.save({"weight": numpy.ones((2, 2))}, "ones.safetensors").tensors
        1
    """
    if not hasattr(tensors, "items"):
        hint = ": pass its state_dict()" if hasattr(tensors, "state_dict") else ""
        raise TypeError(f"tensors must be a mapping of names to arrays, not a {type(tensors).__name__}{hint}")
    arrays = [(_name(name), _array(name, array)) for name, array in tensors.items()]
    show, end = listener(progress)
    try:
        model = tensors._raw if isinstance(tensors, Model) else None
        output = _output(path, to, output_options, force, sync)
        done = _told(engine().save(arrays, output, _metadata(metadata), model, show))
    except Error as error:
        reword(error, of_convert)
        raise
    finally:
        end()
    if not arrays:
        _warn(f"{done.output} has no tensors: the mapping was empty")
    return done


def write(data, path, *, to=None, output_options=None, force=False, sync=False, progress=False):  # type: ignore[no-untyped-def]
    """Writes the records of any object with `__arrow_c_stream__`.

    Tables of pyarrow, polars, pandas and duckdb have this method, and so does a `Scan`. The stream is read once, in
    bounded memory. Dictionary columns, such as a pandas `Categorical`, stay dictionaries if the format supports them.

    Args:
        data: The records.
        path: The output.
        to: The id of the output format, if the name of the output does not imply it.
        output_options: Options of the output format.
        force: If true, an existing output is replaced.
        sync: If true, the output is flushed to disk, so that it survives a power failure.
        progress: `True` shows a progress bar; a function is called as described for `convert`.

    Returns:
        A `Report`.

    Raises:
        UsageError: The stream failed; the message contains the text of its error. If the stream is a `Scan`,
            the scan's own exception is raised instead.
        OutputExistsError: The output already exists.

    Example:
        >>> tensorferry.write(tensorferry.scan("rows.jsonl"), "rows.parquet").records
        3
    """
    show, end = listener(progress)
    before = data.error if isinstance(data, Scan) else None
    try:
        done = _told(engine().write(data, _output(path, to, output_options, force, sync), show))
    except Error as error:
        # An Arrow stream transmits only the message of an error. The scan stores the exception.
        cause = data.error if isinstance(data, Scan) else None
        if cause is not None and str(cause) != str(before):
            raise cause from None
        reword(error, of_convert)
        raise
    finally:
        end()
    if not done.records and not hasattr(data, "__len__"):
        _warn(f"{done.output} has no records: the stream is empty, or has been read before")
    return done


def _told(found):  # type: ignore[no-untyped-def]
    """Returns a report, and warns about lost data because few callers examine reports."""
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
    """Runs the jobs of a manifest, each in its own process.

    A second run runs only the jobs that are unfinished or have changed.

    Args:
        manifest: The manifest, a TOML file.
        variables: Values of the manifest's variables.
        jobs: How many jobs run at the same time.
        fail_fast: If true, the run stops at the first failed job.
        dry_run: If true, the run is planned but nothing is written.
        report: A folder for the report.
        progress: A function that is called with each event as a mapping.

    Returns:
        A `RunSummary`. A failed job raises no exception; its `totals` and `jobs` show it.

    Example:
        >>> tensorferry.run("manifest.toml").totals["done"]
        1
    """
    given = {str(key): str(value) for key, value in (variables or {}).items()}
    folder = None if report is None else os.fspath(report)
    how = (_existing(manifest), given, jobs, bool(fail_fast), bool(dry_run), folder)
    return RunSummary(engine().run(how, progress))


def _path(path):  # type: ignore[no-untyped-def]
    return os.fsdecode(os.fspath(path))


class _Place:
    """The absolute path of an input. It remains valid in other processes and if the working folder changes.

    If its `with` block raises an error, the error shows the path as the caller passed it.
    """

    def __init__(self, path):  # type: ignore[no-untyped-def]
        self.path = _path(path)
        self._folder = ""
        if self.path and not os.path.isabs(self.path) and "://" not in self.path:
            self._folder = os.path.join(os.getcwd(), "")
            # `abspath` would resolve `..` lexically, which is wrong after a symbolic link.
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
    # The path may be a glob or the common prefix of a set of files, so only the engine can find out
    # whether it is missing.
    options = dict(options)
    follow_links = bool(options.pop("follow_links", False))
    return _path(path), format, None if part is None else str(part), _options(options), follow_links


def _output(path, to, output_options, force, sync):  # type: ignore[no-untyped-def]
    return _path(path), to, _options(output_options or {}), bool(force), bool(sync)


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
        raise TypeError(f"{what} must be a list of strings, not a string: [{given!r}]")
    return [str(text) for text in given]


def _metadata(metadata):  # type: ignore[no-untyped-def]
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must map strings to strings, but {key!r} has the value {value!r}")
    return dict(metadata or {})


def _name(name):  # type: ignore[no-untyped-def]
    if not isinstance(name, str):
        raise TypeError(f"the name of a tensor must be a string, not {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise usage("the name is not valid Unicode: it contains an unpaired surrogate", tensor=name) from None
    return name


def _array(name, array):  # type: ignore[no-untyped-def]
    """Returns an array in a form that the engine accepts: an engine tensor, bytes with dtype and shape, or DLPack."""
    from ._dtypes import name_of

    module = type(array).__module__.partition(".")[0]
    if hasattr(array, "detach") and hasattr(array, "cpu"):
        if getattr(array, "is_meta", False):
            raise unsupported("a torch tensor on the meta device has no data", name)
        import torch

        own = type(array).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        if own or array.is_nested:
            hint = "call full_tensor() or to_local()" if hasattr(array, "full_tensor") else "save the tensors inside it"
            raise unsupported(f"a {type(array).__name__} has no memory of its own", name, hint)
        array = array.detach().cpu()
        # Computes the conjugates and negatives that torch evaluates lazily.
        array = array.resolve_conj().resolve_neg()
        if not array.is_sparse and array.layout == torch.strided:
            return _torch_array(name, array)
        raise unsupported(f"a tensor with layout {array.layout} cannot be saved", name, "call to_dense() first")
    if hasattr(array, "_raw") and module == "tensorferry":
        is_whole = array._part() is None and list(array.shape) == array._raw.shape
        return array._raw if is_whole else (array.bytes(), array.dtype, list(array.shape))
    if hasattr(array, "__array_interface__") or module in ("jax", "jaxlib") or hasattr(array, "__array__"):
        import numpy

        if isinstance(array, numpy.ma.MaskedArray):
            hint = "save filled(value), and .mask as another array"
            raise unsupported("a masked array cannot be saved", name, hint)
        array = numpy.asarray(array)
        dtype = name_of(array.dtype.name)
        if dtype is None:
            raise unsupported(f"no format supports the numpy dtype {array.dtype}", name)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        array = array if array.flags.c_contiguous else numpy.ascontiguousarray(array)
        return array.reshape(-1).view(numpy.uint8), dtype, list(array.shape)
    if hasattr(array, "__dlpack__"):
        return array
    raise TypeError(f"{name!r} is not an array but a {type(array).__name__}")


def _torch_array(name, array):  # type: ignore[no-untyped-def]
    import torch

    if array.is_quantized:
        raise unsupported("a quantized tensor cannot be saved", name, "save its int_repr(), scale and zero point")
    unsigned = (torch.uint16, torch.uint32, torch.uint64)
    if array.dtype.is_floating_point and array.element_size() == 1 or array.dtype in unsigned:
        from ._dtypes import TABLE

        # Not every version of torch exports these dtypes through DLPack.
        named = {torch_name: known for known, (_, torch_name) in reversed(TABLE.items()) if torch_name}
        known = named.get(str(array.dtype).removeprefix("torch."))
        if known is None:
            raise unsupported(f"no format supports the torch dtype {array.dtype}", name)
        flat = array.contiguous().reshape(-1).view(torch.uint8)
        return flat.numpy(), known, list(array.shape)
    return array


def _differences(found):  # type: ignore[no-untyped-def]
    return Differences({**found, "differences": [Difference(one) for one in found["differences"]]})
