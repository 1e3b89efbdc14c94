"""Compares CSV files, as pyarrow reads them, with ferry's conversion to Parquet: csv_same.py CSV... PARQUET."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

expected = pq.read_table(sys.argv[-1])
for path in sys.argv[1:-1]:
    found = csv.read_csv(
        path,
        parse_options=csv.ParseOptions(delimiter="\t" if path.endswith(".tsv") else ",", newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
            # pyarrow would read 007 as a number.
            column_types={"code": pa.string()},
        ),
    )
    assert found.column_names == expected.column_names, (found.column_names, expected.column_names)
    for name in found.column_names:
        one, other = found[name], expected[name]
        if pa.types.is_timestamp(one.type):
            assert one.type.tz == other.type.tz, (name, one.type, other.type)
            other = other.cast(one.type)
        assert one.type == other.type, (path, name, one.type, other.type)
        assert one.combine_chunks().equals(other.combine_chunks()), (path, name)
print(json.dumps(expected.num_rows))
