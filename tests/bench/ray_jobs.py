"""Times tensorferry.ray.run over many small models, compared with a plain `ray.remote` function that runs `ferry convert`.

    ray_jobs.py [--models N] [--bytes N] [--rounds N] [--cpus N] [--folder DIR]

By default, 1,000 safetensors files of 100 KiB are converted to safetensors, synced, with receipts
as in `ferry run`. The cluster is already running with one worker per processor, and the plan is
created in advance. The time of a job is the total time divided by the number of jobs. One total is
measured from the call to its return. A second total is measured from a worker's first answer, and
so excludes the startup of the actors. `ferry run` on this machine is measured too. The best round
counts.
"""

import argparse
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import time

import ray

import tensorferry.ray
from tensorferry._engine import program


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--models", type=int, default=1000)
    arguments.add_argument("--bytes", type=int, default=100 << 10)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cpus", type=int, help="processors of the cluster (default: all)")
    arguments.add_argument("--folder", type=pathlib.Path, help="a folder on the disk to measure")
    given = arguments.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=given.folder))
    ray.init(address="local", num_cpus=given.cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        measure(folder, given)
    finally:
        ray.shutdown()
        shutil.rmtree(folder)


def measure(folder, given):
    (folder / "in").mkdir()
    for number in range(given.models):
        write_model(folder / f"in/{number}.safetensors", number, given.bytes)
    (folder / "zoo.toml").write_text('[[zoo]]\nroot = "in"\noutput = "out/{name}"\nto = "safetensors"\n')
    times = {"tensorferry.ray.run": [], "  of which from the first worker on": [], "a ray.remote around ferry convert": [], "ferry run here": []}
    for _ in range(given.rounds):
        whole, working = planned(folder, given.models)
        for way, seconds in zip(times, (whole, working, plain(folder, given.models), alone(folder)), strict=True):
            times[way].append(seconds)
    for way, all in times.items():
        print(f"{way:36} {1000 * min(all) / given.models:7.2f} ms a job  ({min(all):.2f} to {max(all):.2f} s)")


def planned(folder, models):
    fresh(folder)
    subprocess.run([program(), "plan", "zoo.toml", "zoo.plan"], cwd=folder, check=True, capture_output=True)
    first = []
    started = time.perf_counter()
    summary = tensorferry.ray.run(folder / "zoo.toml", progress=lambda event: first.append(time.perf_counter()))
    ended = time.perf_counter()
    assert summary.totals["done"] == models, summary
    return ended - started, ended - first[0]


@ray.remote(num_cpus=1)
def convert(source, output):
    command = [program(), "convert", source, output, "--quiet", "--sync", "--receipt", "--threads", "1"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def plain(folder, models):
    fresh(folder)
    (folder / "out").mkdir()
    started = time.perf_counter()
    ray.get([convert.remote(f"{folder}/in/{n}.safetensors", f"{folder}/out/{n}.safetensors") for n in range(models)])
    return time.perf_counter() - started


def alone(folder):
    fresh(folder)
    started = time.perf_counter()
    subprocess.run([program(), "run", "zoo.toml", "--quiet"], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def fresh(folder):
    for path in folder.iterdir():
        if path.name not in ("in", "zoo.toml"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.sync()


def write_model(path, seed, size):
    data = random.Random(seed).randbytes(size - size % 4)
    header = f'{{"w":{{"dtype":"F32","shape":[{len(data) // 4}],"data_offsets":[0,{len(data)}]}}}}'
    header = header.ljust(-(-len(header) // 8) * 8).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


main()
