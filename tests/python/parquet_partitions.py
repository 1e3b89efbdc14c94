"""Writes a dataset in Hive partitions with pyarrow into a folder, and prints the result of reading it with pyarrow: the types
of its columns, and its rows as JSON lines."""

import json
import sys

import pyarrow as pa
import pyarrow.dataset as ds

folder = sys.argv[1]
rows = [
    {"id": number, "year": 2023 + number % 3, "city": city}
    for number, city in enumerate(["New York", "Köln", None, "a/b=c", "12", "New York", "", "Köln", "12"])
    # The name of a folder cannot be empty, so the dataset has no empty strings.
    if city != ""
]
table = pa.Table.from_pylist(rows, pa.schema({"id": pa.int64(), "year": pa.int32(), "city": pa.string()}))
hive = ds.partitioning(pa.schema({"year": pa.int32(), "city": pa.string()}), flavor="hive")
ds.write_dataset(table, folder, format="parquet", partitioning=hive)
read = ds.dataset(folder, format="parquet", partitioning="hive")
print(
    json.dumps(
        {
            "types": {field.name: str(field.type) for field in read.schema},
            "rows": read.to_table().to_pylist(),
        }
    )
)
