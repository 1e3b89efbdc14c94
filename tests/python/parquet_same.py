"""Compares Parquet files pair by pair as pyarrow reads them, and checks the structure of the second
file of each pair."""

import math
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def check(path):
    """Checks the statistics of every row group against its values."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    metadata = file.metadata
    assert metadata.num_rows == sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    seen = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        rows = file.read_row_group(index)
        rows.validate(full=True)
        assert rows.num_rows == group.num_rows
        for number in range(group.num_columns):
            column = group.column(number)
            if "." in column.path_in_schema or column.statistics is None:
                continue
            values = rows.column(column.path_in_schema)
            statistics = column.statistics
            assert statistics.null_count == values.null_count, column
            exact = pa.types.is_integer(values.type) or values.type in (pa.float32(), pa.float64())
            if exact and statistics.has_min_max:
                numbers = [v for v in values.to_pylist() if v is not None and not math.isnan(v)]
                assert (statistics.min, statistics.max) == (min(numbers), max(numbers)), column
            seen += 1
    assert seen or not metadata.num_row_groups, f"{path}: no statistics"


def plain(table):
    """Returns the columns as text with dictionaries decoded. As text, a NaN equals a NaN."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.to_pylist())
    return repr(columns)


arguments = sys.argv[1:]
for ours, theirs in zip(arguments[::2], arguments[1::2]):
    check(theirs)
    a, b = pq.read_table(ours), pq.read_table(theirs)
    assert a.column_names == b.column_names, (ours, theirs)
    for left, right in zip(a.schema, b.schema):
        assert left.type == right.type, (ours, left, right)
    assert (a.schema.metadata or {}) == (b.schema.metadata or {}), (a.schema.metadata, b.schema.metadata)
    assert plain(a) == plain(b), (ours, theirs)
print(len(arguments) // 2)
