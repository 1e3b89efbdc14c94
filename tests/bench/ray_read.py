"""Times tensorferry.ray.read of TFRecords, alternating with ray.data.read_tfrecords and
ray.data.read_parquet of the same rows.

    ray_read.py [--rounds N] [--records N] [--cpus N] [--without-peer] [--folder DIR]

The rows are 20,000 Examples, in one file and in eight files. Each has an int64 id, 64 floats, two
lists of 2 to 32 int64 values, and a string of 400 to 600 bytes. Each reader opens the dataset,
finds its columns, and pulls all blocks into the object store (`materialize`), on a local cluster
that is already running. `read_tfrecords` needs the package `tensorflow-cpu` and takes minutes;
--without-peer leaves it out. It cannot read a feature that has one value in some records and
several in others, so the lists have at least two values. The Parquet files are compressed with
Snappy, and their number equals the number of TFRecord files. Ratios compare the best rounds.
"""

import argparse
import pathlib
import random
import shutil
import tempfile
import time

import pyarrow
import ray
import ray.data

import tensorferry
import tensorferry.ray


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--records", type=int, default=20_000)
    arguments.add_argument("--cpus", type=int, help="processors of the cluster (default: all)")
    arguments.add_argument("--without-peer", action="store_true", help="leave read_tfrecords out")
    arguments.add_argument("--folder", type=pathlib.Path, help="an empty folder for the files (default: in /dev/shm)")
    given = arguments.parse_args()
    folder = given.folder or pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    ray.init(address="local", num_cpus=given.cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(100).materialize()
    try:
        for files in (1, 8):
            measure(folder, files, given)
    finally:
        shutil.rmtree(folder)


def measure(folder, files, given):
    made = make(folder, files, given.records)
    ways = {
        "tensorferry": lambda: tensorferry.ray.read(made["tfrecord"]),
        "read_parquet": lambda: ray.data.read_parquet(str(made["parquet"])),
    }
    if not given.without_peer:
        ways["read_tfrecords"] = lambda: ray.data.read_tfrecords(str(made["tfrecord"]), file_extensions=None)
    times = {way: [] for way in ways}
    for round in range(given.rounds):
        for way, read in ways.items():
            if way == "read_tfrecords" and round > 0:
                continue
            started = time.perf_counter()
            rows = read().materialize().count()
            times[way].append(time.perf_counter() - started)
            assert rows == given.records, (way, rows)
    size = sum(path.stat().st_size for path in made["tfrecord"].iterdir())
    print(f"{given.records} records, {size / 1e6:.0f} MB in {files} file(s)")
    best = {way: min(all) for way, all in times.items()}
    for way, all in times.items():
        ratio = best[way] / best["tensorferry"]
        print(f"  {way:15} {given.records / best[way]:10,.0f} rows/s  {min(all):.3f} to {max(all):.3f} s  {ratio:.2f} of tensorferry's time")


def make(folder, files, records):
    """Writes the same rows as TFRecord and as Parquet, in the same number of files."""
    chance = random.Random(1)
    made = {}
    for ending in ("tfrecord", "parquet"):
        made[ending] = folder / f"{ending}-{files}"
        made[ending].mkdir()
    each = records // files
    for number in range(files):
        count = each if number < files - 1 else records - each * (files - 1)
        table = rows(chance, count, number * each)
        for ending, place in made.items():
            tensorferry.write(table, place / f"part-{number:05}-of-{files:05}.{ending}")
    return made


def rows(chance, count, first):
    lists = [[[chance.randrange(1 << 40) for _ in range(chance.randrange(2, 33))] for _ in range(count)] for _ in range(2)]
    floats = pyarrow.array([chance.random() for _ in range(64 * count)], pyarrow.float32())
    return pyarrow.table(
        {
            "id": pyarrow.array(range(first, first + count), pyarrow.int64()),
            "vector": pyarrow.FixedSizeListArray.from_arrays(floats, 64),
            "tokens": pyarrow.array(lists[0], pyarrow.list_(pyarrow.int64())),
            "labels": pyarrow.array(lists[1], pyarrow.list_(pyarrow.int64())),
            "image": pyarrow.array([chance.randbytes(chance.randrange(400, 600)) for _ in range(count)], pyarrow.binary()),
        }
    )


main()
