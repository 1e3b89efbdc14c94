#!/usr/bin/env python3
"""Compares the package with the libraries that people use instead.

Each measurement is the best of several runs, which alternate between the package and the peer. The
script prints ratios of processor time (user and system) and of elapsed time.

    host/python/bench/peers.py [--gib 1] [--rounds 5] [--folder /dev/shm] [--only WORD]

The script needs torch, safetensors, pyarrow, tensorflow, tfrecord, and the package; install
`./host/python` for useful numbers. Files are in the page cache. Each run has its own process. In a
loop, the allocator would reuse memory and hide the cost of fresh memory. Opening the first file
loads the formats, which takes 2 to 3 ms. Loading the formats takes most of the time in measurements
that only map a file.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SETUP = """
import json, os, resource, sys, time
import numpy
{imports}
path = sys.argv[1]
def cost():
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime
{prepare}
a = cost()
{work}
b = cost()
print(json.dumps([b[0] - a[0], b[1] - a[1]]))
"""

TOUCH = "total = sum(int(array.reshape(-1).view(torch.uint8).sum(dtype=torch.int64)) for array in loaded.values())"
OURS = ("import torch, tensorferry.torch", "tensorferry.formats()")
SAFE = ("import torch, safetensors.torch as st", "")
TORCH = ("import torch", "")
ROWS = "numpy.random.default_rng(3).integers(0, {rows}, 2000).tolist()"

ROWS_OF_ARROW = ("import tensorferry", "tensorferry.formats()",
                 "print(sum(batch.num_rows for batch in tensorferry.scan(path).to_pyarrow()), file=sys.stderr)")  # fmt: skip
TF_DATA = """
spec = {"label": tf.io.FixedLenFeature([], tf.int64), "image": tf.io.FixedLenFeature([], tf.string),
        "scores": tf.io.FixedLenFeature([64], tf.float32)}
"""
TF_READ = """
data = tf.data.TFRecordDataset(path, num_parallel_reads=tf.data.AUTOTUNE).batch(1024)
data = data.map(lambda batch: tf.io.parse_example(batch, spec), num_parallel_calls=tf.data.AUTOTUNE)
print(sum(len(batch["label"]) for batch in data.prefetch(tf.data.AUTOTUNE)), file=sys.stderr)
"""
TFRECORD_READ = """
description = {"label": "int", "image": "byte", "scores": "float"}
print(sum(1 for _ in tfrecord_loader(path, None, description)), file=sys.stderr)
"""

# Each comparison has a name and a file. For the package and for the peer, it has imports,
# unmeasured setup code and measured code.
PAIRS = [
    ("read, vs. load_file(pread)", "st", (*OURS, "loaded = tensorferry.torch.load_file(path)"),
     (*SAFE, "loaded = st.load_file(path, backend='pread')")),
    ("read, vs. load_file", "st", (*OURS, "loaded = tensorferry.torch.load_file(path)\n" + TOUCH),
     (*SAFE, "loaded = st.load_file(path)\n" + TOUCH)),
    ("read a zip, vs. torch.load", "pt", (*OURS, "loaded = tensorferry.torch.load_file(path)"),
     (*TORCH, "loaded = torch.load(path)")),
    ("map, vs. load_file", "st", (*OURS, "loaded = tensorferry.torch.load_file(path, mmap=True)"),
     (*SAFE, "loaded = st.load_file(path)")),
    ("map and sum, vs. load_file", "st", (*OURS, "loaded = tensorferry.torch.load_file(path, mmap=True)\n" + TOUCH),
     (*SAFE, "loaded = st.load_file(path)\n" + TOUCH)),
    ("map a zip and sum, vs. torch.load(mmap)", "pt",
     (*OURS, "loaded = tensorferry.torch.load_file(path, mmap=True)\n" + TOUCH),
     (*TORCH, "loaded = torch.load(path, mmap=True)\n" + TOUCH)),
    ("2,000 rows, vs. safe_open", "st",
     (OURS[0], f"model = tensorferry.open(path); big = model['big']; rows = {ROWS.format(rows='big.shape[0]')}",
      "for row in rows: big[row : row + 1].torch()"),
     ("import torch\nfrom safetensors import safe_open",
      f"big = safe_open(path, 'pt').get_slice('big'); rows = {ROWS.format(rows='big.get_shape()[0]')}",
      "for row in rows: big[row : row + 1].clone()")),
    ("convert, vs. the program", "pt",
     ("import tensorferry", "tensorferry.formats(); out = path + '.out.safetensors'",
      "tensorferry.convert(path, out, force=True)"),
     ("import subprocess, tensorferry._engine as e", "out = path + '.out.safetensors'",
      "subprocess.run([e.program(), 'convert', path, out, '--force'], check=True, capture_output=True)")),
    ("scan tfrecord, vs. tf.data", "tfrecord", ROWS_OF_ARROW, ("import tensorflow as tf", TF_DATA, TF_READ)),
    ("scan tfrecord, vs. the package tfrecord", "tfrecord", ROWS_OF_ARROW,
     ("from tfrecord.reader import tfrecord_loader", "", TFRECORD_READ)),
]  # fmt: skip


def make(folder, gib):
    """Writes a model of this many GiB. One tensor has a third of the bytes, and the others have 4 to 64 MiB each."""
    import safetensors.torch
    import torch

    total, generator = int(gib * (1 << 30)), torch.Generator().manual_seed(1)
    tensors = {"big": torch.randn(total // 3 // 4096 // 4, 4096, generator=generator)}
    left, number = total - tensors["big"].nbytes, 0
    while left > 0:
        size = min(left, (4 << 20) * 2 ** (number % 5))
        tensors[f"layer.{number}"] = torch.randn(max(size // 4, 1), generator=generator)
        left, number = left - size, number + 1
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    torch.save(tensors, folder / "model.pt")
    return {"st": folder / "model.safetensors", "pt": folder / "model.pt"}


def make_records(folder, gib):
    """Writes examples with an image of 1 KiB, 64 scores and a label."""
    import numpy
    import pyarrow

    import tensorferry

    random, rows = numpy.random.default_rng(2), 4096

    def batches():
        for _ in range(max(int(gib * (1 << 30)) // 1350 // rows, 1)):
            columns = {
                "image": [random.bytes(1024) for _ in range(rows)],
                "label": random.integers(0, 1000, rows),
                "scores": pyarrow.FixedSizeListArray.from_arrays(random.random(rows * 64, dtype=numpy.float32), 64),
            }
            yield pyarrow.record_batch(columns)

    first = next(batches())
    reader = pyarrow.RecordBatchReader.from_batches(first.schema, batches())
    tensorferry.write(reader, folder / "rows.tfrecord")
    return {"tfrecord": folder / "rows.tfrecord"}


def measure(side, path):
    imports, prepare, work = side
    script = SETUP.format(imports=imports, prepare=prepare, work=work)
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gib", type=float, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--folder", default="/dev/shm")
    arguments.add_argument("--only", default="", help="comparisons with this in their names")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        pairs = [pair for pair in PAIRS if given.only in pair[0]]
        kinds = {"tfrecord": make_records, "st": make, "pt": make}
        files = {}
        for maker in {kinds[pair[1]] for pair in pairs}:
            files |= maker(pathlib.Path(folder), given.gib)
        print(f"load {os.getloadavg()[0]:.1f}; ours / theirs")
        for name, file, ours, theirs in pairs:
            # The order alternates, because the second run can reuse memory that the first one has
            # just freed.
            turns = [(0, 1) if turn % 2 else (1, 0) for turn in range(given.rounds)]
            found = [{side: measure((ours, theirs)[side], files[file]) for side in turn} for turn in turns]
            best = [[min(round[side][kind] for round in found) for side in (0, 1)] for kind in (0, 1)]
            wall, cpu = best
            print(
                f"{name:45} cpu {cpu[0]:.3f} / {cpu[1]:.3f} s = {cpu[0] / max(cpu[1], 1e-9):.2f}   "
                f"clock {wall[0]:.3f} / {wall[1]:.3f} s = {wall[0] / wall[1]:.2f}",
                flush=True,
            )


main()
