"""Writes a table with dictionaries, an extension type and nested columns as an Arrow file, a stream and Feather."""

import sys

import pyarrow
import pyarrow.feather

n = 1000
tensor = pyarrow.fixed_shape_tensor(pyarrow.float32(), [2, 3])
storage = pyarrow.array([[float(i + k) for k in range(6)] for i in range(n)], tensor.storage_type)
table = pyarrow.table(
    {
        "id": pyarrow.array(range(n), pyarrow.uint32()),
        "word": pyarrow.array([None if i % 7 == 0 else f"w{i % 5}" for i in range(n)]).dictionary_encode(),
        "image": pyarrow.ExtensionArray.from_storage(tensor, storage),
        "tags": pyarrow.array([[f"t{k}" for k in range(i % 3)] for i in range(n)]),
        "at": pyarrow.array([i * 1000 for i in range(n)], pyarrow.timestamp("us", tz="Europe/Berlin")),
        "price": pyarrow.array([i / 4 for i in range(n)], pyarrow.float64()).cast(pyarrow.decimal128(10, 2)),
        "view": pyarrow.array([f"a text that is longer than twelve, {i}" for i in range(n)], pyarrow.string_view()),
        "map": pyarrow.array([[("a", i)] for i in range(n)], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    }
).replace_schema_metadata({"who": "pyarrow"})
with pyarrow.ipc.new_file(sys.argv[1], table.schema) as out:
    out.write_table(table, max_chunksize=300)
with pyarrow.ipc.new_stream(sys.argv[2], table.schema) as out:
    out.write_table(table, max_chunksize=400)
pyarrow.feather.write_feather(table, sys.argv[3])
