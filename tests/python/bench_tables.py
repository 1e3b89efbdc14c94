"""Times conversions of tables by ferry, alternating with polars, DuckDB and pyarrow.

    bench_tables.py FERRY [--rounds N] [--memory SIZE] [CASE...]      CASE: mixed, wide, lists, nested, images, group; default: all

All files are in memory (/dev/shm, about 3 GB). Each conversion is a separate process. The time that
a library needs to start Python and to be imported is measured in the same rounds, and subtracted.
The best round counts. Each line shows ferry's processor time and wall time as ratios to the fastest
library's, and the largest resident sets in MiB.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

import numpy as np

if "--make" in sys.argv:
    # The memory of this process would count as memory of its children.
    import polars as pl
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

SCRIPT = os.path.abspath(__file__)
# Python code of each library: imports, reading by format, writing by format. S is the input, T the output.
LIBRARIES = {
    "polars": (
        "import polars as pl",
        {"csv": "t = pl.scan_csv(S, try_parse_dates=True)", "jsonl": "t = pl.scan_ndjson(S)",
         "arrow": "t = pl.scan_ipc(S)", "parquet": "t = pl.scan_parquet(S)"},
        {"csv": "t.sink_csv(T)", "jsonl": "t.sink_ndjson(T)", "arrow": "t.sink_ipc(T)",
         "parquet": "t.sink_parquet(T, compression='snappy')"},
    ),
    "duckdb": (
        "import duckdb",
        {"csv": "t = duckdb.read_csv(S)", "jsonl": "t = duckdb.read_json(S)", "parquet": "t = duckdb.read_parquet(S)"},
        {"csv": "t.write_csv(T)", "jsonl": "duckdb.sql(f\"copy t to '{T}' (format json)\")", "parquet": "t.write_parquet(T)"},
    ),
    "pyarrow": (
        "from pyarrow import csv, feather, json, parquet",
        {"csv": "t = csv.read_csv(S)", "jsonl": "t = json.read_json(S)", "arrow": "t = feather.read_table(S)",
         "parquet": "t = parquet.read_table(S)"},
        {"csv": "csv.write_csv(t, T)", "arrow": "feather.write_feather(t, T, compression='uncompressed')",
         "parquet": "parquet.write_table(t, T)"},
    ),
}


def mixed(random, rows=1_000_000):
    words = np.array(["tensor", "record", "file", "shard", "checkpoint", "a", "the", "of"])
    comments = np.array([" ".join(random.choice(words, count)) for count in random.integers(3, 12, 10_000)])
    return pa.table({
        "id": np.arange(rows),
        "user": np.char.add("user_", random.integers(0, 50_000, rows).astype(str)),
        "score": random.normal(size=rows),
        "price": np.round(random.random(rows) * 1000, 2),
        "count": random.integers(0, 1000, rows).astype(np.int32),
        "is_new": random.integers(0, 2, rows).astype(bool),
        "time": (1_700_000_000_000_000 + random.integers(0, 10**13, rows)).astype("datetime64[us]"),
        "label": np.array(["cat", "dog", "bird"])[random.integers(0, 3, rows)],
        "comment": comments[random.integers(0, len(comments), rows)],
    })


def floats(random, rows, columns):
    return pa.table({f"f{column:04}": random.normal(size=rows).astype(np.float32) for column in range(columns)})


def lists(random, rows=25_000, length=768):
    values = pa.array(random.normal(size=rows * length).astype(np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(values, length).cast(pa.list_(pa.float32()))
    return pa.table({"id": np.arange(rows), "vector": vectors})


def nested(random, rows=400_000):
    ends = np.concatenate([[0], np.cumsum(random.integers(0, 6, rows))]).astype(np.int32)
    items = {"n": random.integers(0, 1000, ends[-1]), "name": np.array(["a", "bb"])[random.integers(0, 2, ends[-1])]}
    items = pa.StructArray.from_arrays([pa.array(values) for values in items.values()], list(items))
    info = pa.StructArray.from_arrays(
        [pa.array(random.normal(size=rows)), pa.array(random.integers(0, 9, rows), mask=random.random(rows) < 0.3)],
        ["weight", "kind"],
    )
    return pa.table({"id": np.arange(rows), "items": pa.ListArray.from_arrays(pa.array(ends), items), "info": info})


def images(random, rows=10_000):
    return pa.table({"key": [f"{row:06}" for row in range(rows)], "jpg": [random.bytes(20_000) for _ in range(rows)]})


# Each case: a function that makes the table, its conversions, and the largest row group.
CASES = {
    "mixed": (mixed, "csv>parquet parquet>csv jsonl>parquet parquet>jsonl arrow>parquet parquet>arrow csv>jsonl", None),
    "wide": (
        lambda random: floats(random, 10_000, 1000),
        "csv>parquet parquet>csv jsonl>parquet parquet>jsonl arrow>parquet parquet>arrow",
        None,
    ),
    "lists": (lists, "jsonl>parquet parquet>jsonl arrow>parquet parquet>arrow", None),
    "nested": (nested, "jsonl>parquet parquet>jsonl arrow>parquet parquet>arrow", None),
    "images": (images, "arrow>parquet parquet>arrow", None),
    "group": (lambda random: floats(random, 200_000, 300), "parquet>arrow parquet>jsonl", 10**9),
}


def make(case, wanted):
    table, _, group = CASES[case]
    table = table(np.random.default_rng(0))
    for format in wanted:
        path = f"{case}.{format}"
        if format == "parquet":
            pa.parquet.write_table(table, path, compression="zstd", row_group_size=group)
        elif format == "arrow":
            pa.feather.write_feather(table, path, compression="uncompressed")
        elif format == "csv":
            pl.from_arrow(table).write_csv(path)
        else:
            pl.from_arrow(table).write_ndjson(path)


def run(command):
    """Returns processor seconds, wall seconds and the largest resident set in MiB."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: {command}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024


def measure(options, source, target):
    from_format, to_format = (path.rsplit(".", 1)[1] for path in (source, target))
    commands = {"ferry": [options.ferry, "convert", source, target, "--quiet", "--memory", options.memory]}
    for name, (imports, reads, writes) in LIBRARIES.items():
        if from_format in reads and to_format in writes:
            code = f"S, T = {source!r}, {target!r}; {reads[from_format]}; {writes[to_format]}"
            commands[name, "all"] = [sys.executable, "-c", f"{imports}; {code}"]
            commands[name, "start"] = [sys.executable, "-c", imports]
    best = {}
    for _ in range(options.rounds):
        for key, command in commands.items():
            if os.path.exists(target):
                os.remove(target)
            cpu, wall, memory = run(command)
            old = best.get(key, (cpu, wall, memory))
            best[key] = (min(old[0], cpu), min(old[1], wall), max(old[2], memory))
    libraries = {
        name: [best[name, "all"][i] - best[name, "start"][i] for i in (0, 1)]
        for name in LIBRARIES
        if (name, "all") in best
    }
    fastest = min(libraries, key=lambda name: libraries[name][0])
    cpu, wall, memory = best["ferry"]
    wall /= min(library[1] for library in libraries.values())
    least = min(best[name, "all"][2] for name in libraries)
    name = f"{source} > {to_format}"
    print(
        f"{name:24} cpu {cpu / libraries[fastest][0]:5.2f}  wall {wall:5.2f}  fastest {fastest:8}"
        f"  {memory:5.0f} MiB, libraries at least {least:5.0f} MiB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ferry", type=os.path.abspath)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--make", nargs="*", metavar="FORMAT", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.make:
        return make(options.cases[0], options.make)
    print(", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chdir(folder)
        for case in options.cases:
            conversions = [conversion.split(">") for conversion in CASES[case][1].split()]
            formats = {source for source, _ in conversions}
            subprocess.run([sys.executable, SCRIPT, "-", case, "--make", *formats], check=True)
            for source, target in conversions:
                measure(options, f"{case}.{source}", f"out.{target}")


if __name__ == "__main__":
    main()
