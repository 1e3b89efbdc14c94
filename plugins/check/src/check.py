#!/usr/bin/env python3
"""Checks converted models and datasets with their frameworks' own readers. It does not use the converter's code.

    python check.py [--no-sources] [--jobs N] [--verbose] [REPORT.json | RECEIPT.ferry.json]...

Without arguments, it reads the report.json in its own folder. For each output that has a receipt, it checks:

1. Every file of the output has the length and digest in the receipt.
2. Every tensor has the dtype, shape and digest in the receipt, and no tensor is missing from the
   receipt. Tensors are read by safetensors, torch.load(weights_only=True) or tf.train.load_checkpoint.
3. Each file of records has the number of records in the receipt, and only columns that are in the
receipt. The values of each column have the digest in the receipt. TFRecord files are read by
tf.data.TFRecordDataset, which checks every CRC; Parquet files are read by pyarrow, and JSON lines
by Python's json module.
4. If no step changed the tensors, the source contains each tensor with the same dtype, shape and
   bytes. Its name in the source is the same, or a longer name that ends with the tensor's name. If the
   source has no such name, because its format names tensors differently, any name is accepted.

Frameworks cannot read some tensors, or can read them only by running code from a pickle. The
program lists and counts these tensors as not checked. It treats columns that have no digest in the
receipt, and times in formats other than Parquet, in the same way.

The digest of a tensor covers its dtype, its shape and its elements, which are row-major and
little-endian. An 8-byte little-endian length precedes the bytes of each string element.

Exit codes: 0 everything was checked and matches; 1 something differs; 2 usage error, or nothing to
check; 3 nothing differs, but not everything could be checked.

The program requires Python 3.9 or newer, and the frameworks of the formats to check.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

# The names of dtypes in receipts, by their names in the frameworks.
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

# Prevents several threads from importing large frameworks at the same time.
IMPORTING = threading.Lock()


class NotChecked(Exception):
    """The reason why something could not be checked."""


def framework(name):
    with IMPORTING:
        try:
            return __import__(name, fromlist=["_"])
        except ImportError as error:
            raise NotChecked(f"this Python has no {name}: {error}") from error


# Tensor readers. For each tensor, a reader yields the name, and either (dtype, shape, content
# digest) or the reason why the framework cannot read the tensor.

def fact(dtype, shape, raw):
    """Returns the dtype, shape and digest of a tensor. The documentation of receipts defines the digest."""
    digest, word = blake3(), dtype.encode()
    digest.update(b"tensorferry tensor 1\n" + struct.pack("<Q", len(word)) + word)
    digest.update(struct.pack(f"<{len(shape) + 1}Q", len(shape), *shape))
    digest.update(raw)
    return dtype, shape, digest.hexdigest()



def torch_fact(torch, tensor):
    dtype = TORCH.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None or tensor.layout != torch.strided:
        return f"torch reads it as {tensor.dtype}, {tensor.layout}"
    shape = list(tensor.shape)
    if dtype == "F4":
        shape[-1] *= 2  # the shape in torch counts pairs of elements
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    start = tensor.storage_offset() * tensor.element_size()
    length = tensor.numel() * tensor.element_size()
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())[start : start + length]
    return fact(dtype, shape, memoryview(raw.numpy()))


def safetensors_file(path):
    torch = framework("torch")
    safe_open = framework("safetensors").safe_open
    with safe_open(path, framework="pt") as file:
        for name in file.keys():
            try:
                tensor = file.get_tensor(name)
            except Exception as error:  # any error, because this version may not support the dtype
                yield name, f"safetensors cannot read it: {error}"
            else:
                yield name, torch_fact(torch, tensor)


def flatten(torch, value):
    """Yields each tensor of a nested object with its path. The keys of a path are joined by dots."""
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
    except RuntimeError:  # torch cannot map files from before version 1.6
        value = torch.load(path, weights_only=True, map_location="cpu")
    for name, tensor in flatten(torch, value):
        yield name, torch_fact(torch, tensor)


def shards(index, read):
    """Reads a model in several files. The index and the files are in the same folder."""
    weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    for shard in sorted(set(weight_map.values())):
        for name, fact in read(inside(index.parent, shard)):
            if weight_map.get(name) == shard:
                yield name, fact


def tensors_of(read, index_names, file_names):
    """Returns a function that reads a file or an index, or the first file in a folder that has one of these names."""

    def of(path):
        if path.is_dir():
            named = [path / name for name in (*index_names, *file_names)]
            path = next((name for name in named if name.is_file()), None)
            if path is None:
                raise NotChecked("the folder contains no file with a usual name")
        return shards(path, read) if path.name.endswith(".index.json") else read(path)

    return of


def bundle(path):
    """Reads a TensorFlow checkpoint. The path is any of its files, its prefix or its folder."""
    tf = framework("tensorflow")
    if path.is_dir() and (path / "variables").is_dir():
        path = path / "variables" / "variables"
    if path.is_dir():
        prefix = tf.train.latest_checkpoint(str(path))
        if prefix is None:
            raise NotChecked("tf.train.latest_checkpoint finds no checkpoint in the folder")
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
        return "TensorFlow reads it as a dtype that receipts cannot name"
    if dtype == "STR":
        strings = [value] if isinstance(value, bytes) else numpy.ravel(value).tolist()
        raw = b"".join(struct.pack("<Q", len(string)) + string for string in strings)
        shape = [] if isinstance(value, bytes) else list(value.shape)
    else:
        raw = numpy.ascontiguousarray(value).tobytes()
        shape = list(numpy.shape(value))
    return fact(dtype, shape, raw)


READERS = {
    "safetensors": tensors_of(safetensors_file, ["model.safetensors.index.json"], ["model.safetensors"]),
    "torch": tensors_of(torch_file, ["pytorch_model.bin.index.json"], ["pytorch_model.bin"]),
    "tf-bundle": bundle,
    "saved-model": bundle,
}


def read(format_id, path):
    reader = READERS.get(format_id)
    if reader is None:
        raise NotChecked(f"no framework reads the tensors of {format_id} without running code from the file")
    try:
        return dict(reader(path))
    except NotChecked:
        raise
    except Exception as error:  # any error means that the framework rejects the file
        raise NotChecked(f"its framework cannot read it: {type(error).__name__}: {error}") from error


# BLAKE3, the digest of tensors and records. If the blake3 package is installed, it computes the
# digest. Otherwise, the code below computes it with numpy, many chunks at a time.

BLAKE3_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
BLAKE3_ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


class Blake3:
    # Length of a chunk in bytes, and number of chunks that are hashed together as numpy arrays.
    CHUNK, CHUNKS = 1 << 10, 1 << 14
    GROUP = CHUNK * CHUNKS

    def __init__(self):
        self.numpy = framework("numpy")
        self.rest = bytearray()
        self.groups = 0
        self.stack = []

    def update(self, data):
        self.rest += data
        # Keep the last group in the buffer, because it may be the end of the data.
        while len(self.rest) > self.GROUP:
            values = self.chunks(bytes(self.rest[: self.GROUP]), self.CHUNK, self.groups * self.CHUNKS)
            del self.rest[: self.GROUP]
            self.groups += 1
            value, full = self.reduced(values), self.groups
            while full % 2 == 0:
                value = self.parents(self.stack.pop(), value)
                full //= 2
            self.stack.append(value)

    def hexdigest(self):
        whole = len(self.rest) // self.CHUNK * self.CHUNK
        # Handle the final chunk separately even if it is full.
        if whole == len(self.rest) and whole:
            whole -= self.CHUNK
        first, last = self.groups * self.CHUNKS, bytes(self.rest[whole:])
        if not whole and not self.stack:
            return self.chunks(last, len(last), 0, ROOT).astype("<u4").tobytes().hex()
        values = [self.chunks(bytes(self.rest[:whole]), self.CHUNK, first)] if whole else []
        values.append(self.chunks(last, len(last), first + whole // self.CHUNK))
        values = self.numpy.concatenate(values, axis=1)
        value = self.reduced(values, 1 if self.stack else 2)
        while self.stack:
            left = self.stack.pop()
            value = self.numpy.concatenate([left, value], axis=1)
            if self.stack:
                value = self.reduced(value)
        return self.parents(value[:, :1], value[:, 1:], ROOT).astype("<u4").tobytes().hex()

    def reduced(self, values, until=1):
        """Combines pairs of neighboring values until `until` values are left. Keeps a last value without a pair."""
        while values.shape[1] > until:
            even = values.shape[1] // 2 * 2
            above = self.parents(values[:, 0:even:2], values[:, 1:even:2])
            values = self.numpy.concatenate([above, values[:, even:]], axis=1)
        return values

    def parents(self, left, right, flags=0):
        words = self.numpy.concatenate([left, right])
        return self.compress(self.begin(left.shape[1]), words, 0, 64, PARENT | flags)

    def begin(self, count):
        iv = self.numpy.array(BLAKE3_IV, dtype=self.numpy.uint32)
        return self.numpy.repeat(iv[:, None], count, axis=1)

    def chunks(self, data, length, first, flags=0):
        """Returns the hash values of chunks of equal length. `first` is the number of the first chunk."""
        count = max(1, len(data) // length if length else 1)
        blocks = max(1, -(-length // 64))
        padded = data if length == blocks * 64 else data + bytes(blocks * 64 - length)
        words = self.numpy.frombuffer(padded, dtype="<u4").reshape(count, blocks, 16)
        value = self.begin(count)
        counter = self.numpy.arange(first, first + count, dtype=self.numpy.uint64)
        for block in range(blocks):
            is_last = block == blocks - 1
            own = (CHUNK_START if block == 0 else 0) | (CHUNK_END | flags if is_last else 0)
            used = length - block * 64 if is_last else 64
            value = self.compress(value, words[:, block].T.astype(self.numpy.uint32), counter, used, own)
        return value

    def compress(self, value, words, counter, length, flags):
        np = self.numpy
        count = value.shape[1]
        counter = np.broadcast_to(np.asarray(counter, dtype=np.uint64), (count,))
        a, b = value[:4], value[4:]
        c = self.begin(count)[:4]
        d = np.empty((4, count), dtype=np.uint32)
        d[0], d[1] = counter & np.uint64(0xFFFFFFFF), counter >> np.uint64(32)
        d[2], d[3] = length, flags

        def turn(number, by):
            return (number >> np.uint32(by)) | (number << np.uint32(32 - by))

        def mix(a, b, c, d, x, y):
            a = a + b + x
            d = turn(d ^ a, 16)
            c = c + d
            b = turn(b ^ c, 12)
            a = a + b + y
            d = turn(d ^ a, 8)
            c = c + d
            return a, turn(b ^ c, 7), c, d

        for _ in range(7):
            a, b, c, d = mix(a, b, c, d, words[0:8:2], words[1:8:2])
            b, c, d = b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]]
            a, b, c, d = mix(a, b, c, d, words[8:16:2], words[9:16:2])
            b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
            words = words[BLAKE3_ORDER]
        return np.concatenate([a ^ c, b ^ d])


def blake3():
    try:
        return framework("blake3").blake3()
    except NotChecked:
        return Blake3()


# Column digests. The documentation of receipts defines the encoding of the values that are digested.

NUMBERS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "date32": "i", "date64": "q",
}
QUIET = {"float16": b"\x00\x7e", "float32": b"\x00\x00\xc0\x7f", "float64": b"\x00\x00\x00\x00\x00\x00\xf8\x7f"}
MISSING = b"\xff" * 8


class Column:
    """Computes the digest of a column in a file, row by row."""

    def __init__(self, column):
        word = column["type"].encode()
        self.name, self.type, self.depth = column["name"], column["type"], len(column["shape"])
        self.code = "q" if self.is_time() and self.type != "date32" else NUMBERS.get(self.type)
        if self.code is None and self.type not in ("utf8", "binary", "null"):
            raise NotChecked(f"column {self.name!r}: values of type {self.type} are not compared")
        self.hash = blake3()
        self.hash.update(b"tensorferry column 1\n" + struct.pack("<Q", len(word)) + word)
        self.rows = bytearray()

    def is_time(self):
        return self.type.startswith(("timestamp[", "date"))

    def add(self, values):
        """Adds the value of a row, which is None or a flat list of values. A None in the list is a null."""
        if values is None:
            self.rows += MISSING
        else:
            has_nulls = any(value is None for value in values)
            self.rows += struct.pack("<QB", len(values), has_nulls)
            if has_nulls:
                self.rows += bytes(value is not None for value in values)
                values = [value for value in values if value is not None]
            self.rows += self.raw(values)
        if len(self.rows) > 1 << 20:
            self.hash.update(self.rows)
            self.rows.clear()

    def raw(self, values):
        if self.code is None:
            raws = (value.encode() if isinstance(value, str) else value for value in values)
            return b"".join(struct.pack("<Q", len(raw)) + raw for raw in raws)
        if self.type == "bool":
            return bytes(bool(value) for value in values)
        if self.type in QUIET:
            if any(value != value for value in values):
                one = lambda value: QUIET[self.type] if value != value else struct.pack("<" + self.code, value)
                return b"".join(map(one, values))
        return struct.pack(f"<{len(values)}{self.code}", *values)

    def hexdigest(self):
        self.hash.update(self.rows)
        self.rows.clear()
        return self.hash.hexdigest()


def flat(value, depth):
    """Flattens the nested lists of a value. Omits null lists inside lists."""
    if depth == 0 or not isinstance(value, list):
        return [] if depth and value is None else [value]
    return value if depth == 1 else [inner for item in value for inner in flat(item, depth - 1)]


# Record readers. A reader yields the records of a file in batches. For each batch, it yields the
# number of records, the names of their columns, and the values of each column in `columns`, the
# columns to compare.

def tfrecord_rows(path, names, columns):
    tf = framework("tensorflow")
    with path.open("rb") as file:
        start = file.read(2)
    compression = "GZIP" if start == b"\x1f\x8b" else ""
    for column in columns:
        if column.is_time():
            raise NotChecked(f"column {column.name!r}: times in TFRecords are not compared")
    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
    for record in dataset.as_numpy_iterator():
        if names == ["record"]:  # records that were not decoded
            yield 1, {"record"}, [[[record]] for _ in columns]
            continue
        # An Example can be parsed as a SequenceExample without feature lists.
        message = tf.train.SequenceExample.FromString(record)
        context, lists = message.context.feature, message.feature_lists.feature_list
        rows = [[example_values(context, lists, column.name)] for column in columns]
        yield 1, {*context, *lists}, rows


def example_values(context, lists, name):
    if name in context:
        features = [context[name]]
    elif name in lists:
        features = lists[name].feature
    else:
        return None
    kinds = [(feature, feature.WhichOneof("kind")) for feature in features]
    if name in context and kinds[0][1] is None:
        return None
    return [value for feature, kind in kinds if kind for value in getattr(feature, kind).value]


def parquet_rows(path, names, columns):
    pyarrow = framework("pyarrow")
    file = framework("pyarrow.parquet").ParquetFile(path)
    there = set(file.schema_arrow.names)
    yield 0, there, [[] for _ in columns]
    for batch in file.iter_batches():
        rows = []
        for column in columns:
            index = batch.schema.get_field_index(column.name)
            rows.append(arrow_rows(pyarrow, batch.column(index), column) if index >= 0 else [None] * batch.num_rows)
        yield batch.num_rows, there, rows


def arrow_rows(pyarrow, array, column):
    if column.is_time():
        # Convert times to the time type in the receipt, and then to the integers that represent them.
        unit, _, zone = column.type.removeprefix("timestamp[").rstrip("]").partition(", ")
        plain = {"date32": pyarrow.date32(), "date64": pyarrow.date64()}
        time = plain.get(column.type) or pyarrow.timestamp(unit, zone or None)
        array = array.cast(arrow_type(pyarrow, array.type, time))
        number = pyarrow.int32() if column.type == "date32" else pyarrow.int64()
        array = array.cast(arrow_type(pyarrow, array.type, number))
    return [None if value is None else flat(value, column.depth) for value in array.to_pylist()]


def arrow_type(pyarrow, lists, value):
    """Returns a list type that is the same as `lists` except for the innermost value type."""
    if pyarrow.types.is_list(lists):
        return pyarrow.list_(arrow_type(pyarrow, lists.value_type, value))
    if pyarrow.types.is_large_list(lists):
        return pyarrow.large_list(arrow_type(pyarrow, lists.value_type, value))
    if pyarrow.types.is_fixed_size_list(lists):
        return pyarrow.list_(arrow_type(pyarrow, lists.value_type, value), lists.list_size)
    return value


def jsonl_rows(path, names, columns):
    for column in columns:
        if column.is_time():
            raise NotChecked(f"column {column.name!r}: times in JSON are not compared")
    with path.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x1f\x8b":
        stream = gzip.open(path)
    elif start == b"\x28\xb5\x2f\xfd":
        stream = framework("pyarrow").CompressedInputStream(str(path), "zstd")
    else:
        stream = path.open("rb")
    with stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            if line.strip():
                record = json.loads(line)
                yield 1, set(record), [[json_values(record.get(column.name), column)] for column in columns]


def json_values(value, column):
    if value is None:
        return None
    values = flat(value, column.depth)
    if column.type == "binary":
        return [value if value is None else base64.b64decode(value, validate=True) for value in values]
    if column.type in QUIET:
        # NaN and infinities are strings in JSON.
        return [value if value is None else float(value) for value in values]
    return values


RECORD_READERS = {"tfrecord": tfrecord_rows, "parquet": parquet_rows, "jsonl": jsonl_rows}


# Receipts.

def inside(folder, name):
    """Returns the path of `name` in `folder`, or raises NotChecked if the path would leave the folder."""
    parts = pathlib.PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise NotChecked(f"a name points outside of its folder: {name!r}")
    return folder / name


def differs_from(path, expected):
    """Returns a description of how a file differs from its entry in the receipt, or None if it is the same."""
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != expected["bytes"]:
        return f"has {path.stat().st_size} bytes instead of {expected['bytes']}"
    name = "sha256" if "sha256" in expected else "blake3"
    digest = hashlib.sha256() if name == "sha256" else blake3()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return None if digest.hexdigest() == expected[name] else f"has a different {name}"


class Output:
    """The findings for one output."""

    def __init__(self, name):
        self.name = name
        self.wrong = []
        self.unchecked = []
        self.tensors = 0
        self.rows = 0
        self.columns = 0
        self.in_source = 0

    def check(self, receipt_path, sources):
        try:
            receipt = json.loads(receipt_path.read_text(encoding="utf-8"))
            if receipt["receipt"] != 3:
                raise NotChecked(f"unsupported receipt version {receipt['receipt']}")
            folder = receipt_path.parent
            for file in receipt["output"]["files"]:
                if wrong := differs_from(inside(folder, file["name"]), file):
                    self.wrong.append(f"file {file['name']!r} {wrong}")
            if receipt.get("records"):
                self.check_records(folder, receipt)
            elif not receipt["models"]:
                self.unchecked.append("it has no tensors and no records")
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
            raise NotChecked(f"no framework is used to read records of {format_id}")
        known = {column["name"] for column in records["columns"]}
        compared = self.compared(records)
        for file in records["files"]:
            path, rows, names = inside(folder, file["name"]), 0, set()
            if not path.is_file():
                continue  # the check of the files has already reported this
            columns = [Column(column) for column in compared]
            try:
                for number, of_batch, values in reader(path, [c["name"] for c in records["columns"]], columns):
                    rows += number
                    names |= of_batch
                    for column, of_rows in zip(columns, values):
                        for row in of_rows:
                            column.add(row)
            except NotChecked:
                raise
            except Exception as error:  # any error means that the framework rejects the file
                self.wrong.append(f"file {file['name']!r}: its framework cannot read it: {type(error).__name__}: {error}")
                continue
            digests = {c["name"]: digest for c, digest in zip(records["columns"], file["columns"])}
            for column in columns:
                if digests[column.name] is None:
                    continue
                if column.hexdigest() == digests[column.name]:
                    self.columns += 1
                else:
                    self.wrong.append(f"file {file['name']!r}: column {column.name!r} has different values")
            if rows != file["rows"]:
                self.wrong.append(f"file {file['name']!r} has {rows} records instead of {file['rows']}")
            # A TFRecord file has no schema, so a column without any values does not occur in it.
            lacks = set() if format_id == "tfrecord" else known - names if rows else set()
            for name in sorted(names - known):
                self.wrong.append(f"file {file['name']!r} has a column {name!r} that is not in the receipt")
            for name in sorted(lacks):
                self.wrong.append(f"file {file['name']!r} has no column {name!r}")
            self.rows += rows
        if sum(file["rows"] for file in records["files"]) != records["rows"]:
            self.wrong.append("the receipt's total number of records is not the sum over its files")

    def compared(self, records):
        """Returns the columns whose values can be compared, and counts the others."""
        compared = []
        for index, column in enumerate(records["columns"]):
            try:
                if all(file["columns"][index] is None for file in records["files"]):
                    raise NotChecked(f"column {column['name']!r}: the receipt has no digest of {column['type']} values")
                Column(column)
            except NotChecked as error:
                self.unchecked.append(str(error))
            else:
                compared.append(column)
        return compared

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
                self.wrong.append(f"tensor {tensor['name']!r} is missing")
            elif isinstance(fact, str):
                self.unchecked.append(f"tensor {tensor['name']!r}: {fact}")
            elif fact != expected(tensor):
                self.wrong.append(f"tensor {tensor['name']!r} is {fact} instead of {expected(tensor)}")
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
        # Index each tensor by its name and by each suffix of the name. If only a part of the model
        # was converted, the names in the output do not begin with the path of the part.
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
                self.unchecked.append(f"source: tensor {tensor['name']!r} may be among those that cannot be read")
            else:
                self.wrong.append(f"tensor {tensor['name']!r} is not in the source with these bytes")


def expected(tensor):
    return tensor["dtype"], tensor["shape"], tensor["content"]


# Command line.

def outputs_of(path):
    """Returns the outputs of a report or a receipt. Each is a pair of a name, and the path of its receipt or None."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "jobs" not in document:
        return [(str(path), path)]
    made = [job for job in document["jobs"] if job["state"] in ("done", "unchanged")]
    return [(job["name"], path.parent / job["receipt"] if job["receipt"] else None) for job in made]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--no-sources", action="store_true", help="do not compare with the sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="outputs to check at a time")
    parser.add_argument("--verbose", action="store_true", help="print a line for every output, even if it is ok")
    arguments = parser.parse_args()
    try:
        paths = arguments.paths or [pathlib.Path(__file__).resolve().parent / "report.json"]
        named = [output for path in paths for output in outputs_of(path)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"check.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not named:
        print("check.py: no outputs to check", file=sys.stderr)
        return 2

    def check(output):
        name, receipt = output
        checked = Output(name)
        if receipt is None:
            checked.unchecked.append("it has no receipt")
        else:
            checked.check(receipt, not arguments.no_sources)
        return checked

    wrong = unchecked = tensors = in_source = rows = columns = 0
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
            columns += checked.columns
    print(
        f"{len(named)} outputs: {wrong} wrong, {unchecked} not checked in full; "
        f"{tensors} tensors equal in the output, {in_source} of them in the source"
        + (f"; {rows} records read, {columns} columns of files equal" if rows else "")
    )
    return 1 if wrong else 3 if unchecked else 0


def printable(text):
    """Escapes characters that are not printable, because names from files must not control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


if __name__ == "__main__":
    sys.exit(main())
