#!/usr/bin/env python3
"""Checks converted models with their frameworks' own readers, and with none of the converter's code.

    python check.py [--no-sources] [--jobs N] [--verbose] [REPORT.json | RECEIPT.ferry.json]...

Without arguments it reads the report.json beside it. For each output that has a receipt:

1. every file of the output has the length and the SHA-256 that the receipt says;
2. every tensor, read by safetensors, torch.load(weights_only=True) or tf.train.load_checkpoint, has the
   dtype, the shape and the SHA-256 that the receipt says, and there is no other tensor;
3. records are read to their end: TFRecord by tf.data.TFRecordDataset, which checks every CRC, Parquet
   and JSON lines by pyarrow; each file has as many as the receipt says, and no column that it lacks;
4. where no step changed the tensors, each is in the source too, read in the same way, with the same
   dtype, shape and bytes: under the same name or a longer one that ends in it; where the source has
   neither, as after a format that names its tensors otherwise, under any name.

What a framework cannot read, or could only read by running a pickle's code, is named and counted as
not checked. The SHA-256 of a tensor is over its elements row-major and little-endian; of strings, over
each one's length as 8 bytes little-endian and its bytes.

Exit codes: 0 everything was checked and is equal; 1 something differs; 2 usage, or nothing to check;
3 nothing differs, but not everything could be checked.

Needs Python 3.9 or newer, and the frameworks of the formats that there are.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

# The names of dtypes in receipts, by the frameworks' own.
TORCH = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex32": "C32", "bcomplex32": "BC32", "complex64": "C64",
    "complex128": "C128", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4", "bits8": "BITS8", "bits16": "BITS16", "bits1x8": "BITS1x8",
    "bits2x4": "BITS2x4", "bits4x2": "BITS4x2",
}
TENSORFLOW = {
    "float32": "F32", "float64": "F64", "int32": "I32", "uint8": "U8", "int16": "I16", "int8": "I8",
    "string": "STR", "complex64": "C64", "int64": "I64", "bool": "BOOL", "qint8": "QI8", "quint8": "QU8",
    "qint32": "QI32", "bfloat16": "BF16", "qint16": "QI16", "quint16": "QU16", "uint16": "U16",
    "complex128": "C128", "float16": "F16", "uint32": "U32", "uint64": "U64", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e4m3b11fnuz": "F8_E4M3B11FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "int4": "I4_UNPACKED", "uint4": "U4_UNPACKED", "int2": "I2_UNPACKED",
    "uint2": "U2_UNPACKED", "float4_e2m1fn": "F4_UNPACKED",
}

# Imports of large frameworks are not safe to begin in several threads.
IMPORTING = threading.Lock()


class NotChecked(Exception):
    """Why something could not be checked."""


def framework(name):
    with IMPORTING:
        try:
            return __import__(name, fromlist=["_"])
        except ImportError as error:
            raise NotChecked(f"this Python has no {name}: {error}") from error


# Readers. Each yields a name and, for it, (dtype, shape, SHA-256), or why the framework cannot read it.

def torch_fact(torch, tensor):
    dtype = TORCH.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None or tensor.layout != torch.strided:
        return f"torch reads it as {tensor.dtype}, {tensor.layout}"
    shape = list(tensor.shape)
    if dtype == "F4":
        shape[-1] *= 2  # torch counts pairs
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    start = tensor.storage_offset() * tensor.element_size()
    length = tensor.numel() * tensor.element_size()
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())[start : start + length]
    return dtype, shape, hashlib.sha256(raw.numpy()).hexdigest()


def safetensors_file(path):
    torch = framework("torch")
    safe_open = framework("safetensors").safe_open
    with safe_open(path, framework="pt") as file:
        for name in file.keys():
            try:
                tensor = file.get_tensor(name)
            except Exception as error:  # of whatever kind: a dtype that this version lacks
                yield name, f"safetensors cannot read it: {error}"
            else:
                yield name, torch_fact(torch, tensor)


def flatten(torch, value):
    """The tensors of a nested object by their dotted path."""
    pending = [("", value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, torch.Tensor):
            yield path, value
        elif isinstance(value, (dict, list, tuple)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            pending.extend((f"{path}.{key}" if path else str(key), item) for key, item in items)


def torch_file(path):
    torch = framework("torch")
    try:
        value = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
    except RuntimeError:  # files from before torch 1.6 cannot be mapped
        value = torch.load(path, weights_only=True, map_location="cpu")
    for name, tensor in flatten(torch, value):
        yield name, torch_fact(torch, tensor)


def shards(index, read):
    """Of a model in several files: by the index that lies beside them."""
    weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    for shard in sorted(set(weight_map.values())):
        for name, fact in read(inside(index.parent, shard)):
            if weight_map.get(name) == shard:
                yield name, fact


def tensors_of(read, index_names, file_names):
    """A reader of one file, of an index, or of a folder with either under its usual name."""

    def of(path):
        if path.is_dir():
            named = [path / name for name in (*index_names, *file_names)]
            path = next((name for name in named if name.is_file()), None)
            if path is None:
                raise NotChecked("the folder has no file of the usual name")
        return shards(path, read) if path.name.endswith(".index.json") else read(path)

    return of


def bundle(path):
    """A checkpoint of TensorFlow, by any of its files or its prefix."""
    tf = framework("tensorflow")
    if path.is_dir() and (path / "variables").is_dir():
        path = path / "variables" / "variables"
    if path.is_dir():
        prefix = tf.train.latest_checkpoint(str(path))
        if prefix is None:
            raise NotChecked("the folder has no checkpoint that TensorFlow calls the latest")
    else:
        prefix = str(path)
        for ending in (".index", ".data-"):
            prefix = prefix.rsplit(ending, 1)[0] if ending in path.name else prefix
    reader = tf.train.load_checkpoint(prefix)
    for name, dtype in reader.get_variable_to_dtype_map().items():
        try:
            value = reader.get_tensor(name)
        except (tf.errors.OpError, ValueError) as error:
            yield name, f"TensorFlow cannot read it: {error}"
            continue
        yield name, tensorflow_fact(value, TENSORFLOW.get(dtype.name))


def tensorflow_fact(value, dtype):
    import numpy

    if dtype is None:
        return "TensorFlow reads it as a dtype that has no name here"
    if dtype == "STR":
        strings = [value] if isinstance(value, bytes) else numpy.ravel(value).tolist()
        raw = b"".join(struct.pack("<Q", len(string)) + string for string in strings)
        shape = [] if isinstance(value, bytes) else list(value.shape)
    else:
        raw = numpy.ascontiguousarray(value).tobytes()
        shape = list(numpy.shape(value))
    return dtype, shape, hashlib.sha256(raw).hexdigest()


READERS = {
    "safetensors": tensors_of(safetensors_file, ["model.safetensors.index.json"], ["model.safetensors"]),
    "torch": tensors_of(torch_file, ["pytorch_model.bin.index.json"], ["pytorch_model.bin"]),
    "tf-bundle": bundle,
    "saved-model": bundle,
}


def read(format_id, path):
    reader = READERS.get(format_id)
    if reader is None:
        raise NotChecked(f"no framework reads {format_id} without running code of the file, or as tensors")
    try:
        return dict(reader(path))
    except NotChecked:
        raise
    except Exception as error:  # whatever a framework says of a file that it does not take
        raise NotChecked(f"its framework does not read it: {type(error).__name__}: {error}") from error


# Readers of records. Each yields, for a file, how many records there are in every batch of them, and the
# names of their columns.

def tfrecord_rows(path, columns):
    tf = framework("tensorflow")
    with path.open("rb") as file:
        start = file.read(2)
    compression = "GZIP" if start == b"\x1f\x8b" else ""
    if [column["name"] for column in columns] == ["record"]:
        names = lambda _: {"record"}  # records that were not decoded
    else:
        names = example_names
    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
    for record in dataset.as_numpy_iterator():
        yield 1, names(record)


def example_names(record):
    tf = framework("tensorflow")
    # An Example is a SequenceExample without lists of features.
    message = tf.train.SequenceExample.FromString(record)
    return {*message.context.feature, *message.feature_lists.feature_list}


def parquet_rows(path, columns):
    file = framework("pyarrow.parquet").ParquetFile(path)
    names = set(file.schema_arrow.names)
    yield 0, names
    for batch in file.iter_batches():
        yield batch.num_rows, names


def jsonl_rows(path, columns):
    pyarrow, json_lines = framework("pyarrow"), framework("pyarrow.json")
    if path.stat().st_size == 0:
        return
    try:
        with pyarrow.input_stream(str(path)) as stream:  # decompresses by the name's ending
            table = json_lines.read_json(stream, read_options=json_lines.ReadOptions(block_size=1 << 26))
    except pyarrow.ArrowInvalid:  # it takes no string among numbers, as NaN is written: line by line then
        with pyarrow.input_stream(str(path)) as stream:
            for line in io.TextIOWrapper(stream, encoding="utf-8"):
                if line.strip():
                    yield 1, set(json.loads(line))
    else:
        yield table.num_rows, set(table.column_names)


RECORD_READERS = {"tfrecord": tfrecord_rows, "parquet": parquet_rows, "jsonl": jsonl_rows}


# Receipts.

def inside(folder, name):
    """The path of a name that has to stay in a folder."""
    parts = pathlib.PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise NotChecked(f"a name that leaves its folder: {name!r}")
    return folder / name


def differs_from(path, expected):
    """In what a file is not what a receipt says; None if in nothing."""
    if not path.is_file():
        return "is not there"
    if path.stat().st_size != expected["bytes"]:
        return f"has {path.stat().st_size} bytes and not {expected['bytes']}"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return None if digest.hexdigest() == expected["sha256"] else "has another SHA-256"


class Output:
    """What was found of one output."""

    def __init__(self, name):
        self.name = name
        self.wrong = []
        self.unchecked = []
        self.tensors = 0
        self.rows = 0
        self.in_source = 0

    def check(self, receipt_path, sources):
        try:
            receipt = json.loads(receipt_path.read_text(encoding="utf-8"))
            if receipt["receipt"] != 1:
                raise NotChecked(f"a receipt of version {receipt['receipt']}")
            folder = receipt_path.parent
            for file in receipt["output"]["files"]:
                if wrong := differs_from(inside(folder, file["name"]), file):
                    self.wrong.append(f"file {file['name']!r} {wrong}")
            if receipt.get("records"):
                self.check_records(folder, receipt)
            elif not receipt["models"]:
                self.unchecked.append("it has neither tensors nor records")
            for model in receipt["models"]:
                self.check_model(folder, receipt, model)
                if sources:
                    self.check_source(receipt, model)
        except NotChecked as error:
            self.unchecked.append(str(error))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.wrong.append(f"the receipt cannot be read: {type(error).__name__}: {error}")

    def check_records(self, folder, receipt):
        format_id = receipt["output"]["format"]["id"]
        records = receipt["records"]
        reader = RECORD_READERS.get(format_id)
        if reader is None:
            raise NotChecked(f"no framework here reads records of {format_id}")
        known = {column["name"] for column in records["columns"]}
        for file in records["files"]:
            path, rows, names = inside(folder, file["name"]), 0, set()
            if not path.is_file():
                continue  # that was said of the file
            try:
                for number, of_batch in reader(path, records["columns"]):
                    rows += number
                    names |= of_batch
            except NotChecked:
                raise
            except Exception as error:  # of whatever kind: a framework refuses what was written
                self.wrong.append(f"file {file['name']!r}: its framework does not read it: {type(error).__name__}: {error}")
                continue
            if rows != file["rows"]:
                self.wrong.append(f"file {file['name']!r} has {rows} records and not {file['rows']}")
            # TFRecord has no columns but in records, and a column without a value is in none.
            lacks = set() if format_id == "tfrecord" else known - names if rows else set()
            for name in sorted(names - known):
                self.wrong.append(f"file {file['name']!r} has a column {name!r} that is not in the receipt")
            for name in sorted(lacks):
                self.wrong.append(f"file {file['name']!r} has no column {name!r}")
            self.rows += rows
        if sum(file["rows"] for file in records["files"]) != records["rows"]:
            self.wrong.append("the receipt's files have another number of records than all of it")

    def check_model(self, folder, receipt, model):
        folder = inside(folder, model["folder"]) if model["folder"] else folder
        path = inside(folder, model["entry"]) if model["entry"] else folder
        try:
            found = read(receipt["output"]["format"]["id"], path)
        except NotChecked as error:
            self.unchecked.append(f"{path}: {error}")
            return
        for tensor in model["tensors"]:
            fact = found.pop(tensor["name"], None)
            if fact is None:
                self.wrong.append(f"tensor {tensor['name']!r} is not there")
            elif isinstance(fact, str):
                self.unchecked.append(f"tensor {tensor['name']!r}: {fact}")
            elif fact != expected(tensor):
                self.wrong.append(f"tensor {tensor['name']!r} is {fact} and not {expected(tensor)}")
            else:
                self.tensors += 1
        self.wrong.extend(f"tensor {name!r} is not in the receipt" for name in found)

    def check_source(self, receipt, model):
        if receipt["steps"]:
            self.unchecked.append("source: steps changed the tensors")
            return
        folder = pathlib.Path(receipt["input"]["folder"])
        for file in receipt["input"]["files"]:
            if wrong := differs_from(inside(folder, file["name"]), file):
                self.unchecked.append(f"source: file {file['name']!r} {wrong}")
                return
        path = inside(folder, model["folder"]) if model["folder"] else pathlib.Path(receipt["input"]["path"])
        try:
            found = read(model["from"]["id"], path)
        except NotChecked as error:
            self.unchecked.append(f"source {path}: {error}")
            return
        # By the whole name and by each of its ends: a part's path is not in its tensors' names.
        by_end, contents = {}, set()
        unread = sum(isinstance(fact, str) for fact in found.values())
        for name, fact in found.items():
            if isinstance(fact, str):
                continue
            contents.add((fact[0], tuple(fact[1]), fact[2]))
            parts = name.split(".")
            for start in range(len(parts)):
                by_end.setdefault(".".join(parts[start:]), []).append(fact)
        for tensor in model["tensors"]:
            wanted = expected(tensor)
            same_name = by_end.get(tensor["name"])
            known = (wanted[0], tuple(wanted[1]), wanted[2]) in contents
            if wanted in same_name if same_name else known:
                self.in_source += 1
            elif unread:
                self.unchecked.append(f"source: tensor {tensor['name']!r} may be one that cannot be read there")
            else:
                self.wrong.append(f"tensor {tensor['name']!r} is not in the source with these bytes")


def expected(tensor):
    return tensor["dtype"], tensor["shape"], tensor["sha256"]


# The whole.

def outputs_of(path):
    """The outputs that a report or a receipt names: name, and the receipt's path, if it has one."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "jobs" not in document:
        return [(str(path), path)]
    made = [job for job in document["jobs"] if job["state"] in ("done", "unchanged")]
    return [(job["name"], path.parent / job["receipt"] if job["receipt"] else None) for job in made]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--no-sources", action="store_true", help="leave the sources alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="outputs at a time")
    parser.add_argument("--verbose", action="store_true", help="a line for each output, not only for those in doubt")
    arguments = parser.parse_args()
    try:
        paths = arguments.paths or [pathlib.Path(__file__).resolve().parent / "report.json"]
        named = [output for path in paths for output in outputs_of(path)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"check.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not named:
        print("check.py: there is no output to check", file=sys.stderr)
        return 2

    def check(output):
        name, receipt = output
        checked = Output(name)
        if receipt is None:
            checked.unchecked.append("it has no receipt")
        else:
            checked.check(receipt, not arguments.no_sources)
        return checked

    wrong = unchecked = tensors = in_source = rows = 0
    with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for checked in pool.map(check, named):
            word = "WRONG" if checked.wrong else "not checked" if checked.unchecked else "ok"
            if word != "ok" or arguments.verbose:
                print(f"{word}: {printable(checked.name)}")
            for line in checked.wrong:
                print(f"  wrong: {printable(line)}")
            for line in checked.unchecked:
                print(f"  not checked: {printable(line)}")
            wrong += bool(checked.wrong)
            unchecked += bool(checked.unchecked)
            tensors += checked.tensors
            in_source += checked.in_source
            rows += checked.rows
    print(
        f"{len(named)} outputs: {wrong} wrong, {unchecked} not checked in full; "
        f"{tensors} tensors equal in the output, {in_source} of them in the source"
        + (f"; {rows} records read" if rows else "")
    )
    return 1 if wrong else 3 if unchecked else 0


def printable(text):
    """Names come from files: what is not printable cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


if __name__ == "__main__":
    sys.exit(main())
