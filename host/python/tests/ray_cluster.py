"""Helpers for tests with Ray: a cluster of several nodes on this machine, a set of models, and drivers that can be killed."""

import contextlib
import hashlib
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time

import psutil
from ray.cluster_utils import Cluster

from tensorferry._engine import program

# #: The maximum number of seconds that a driver may take.
LONGEST = 150


class Nodes:
    """A cluster with a head node that runs no jobs, and two worker nodes."""

    def __init__(self):
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.add(), self.add()]

    @property
    def address(self):
        return self.cluster.address

    def add(self):
        return self.cluster.add_node(num_cpus=2)

    def replace(self, number):
        """Replaces a dead node."""
        with contextlib.suppress(Exception):
            self.cluster.remove_node(self.nodes[number])
        self.nodes[number] = self.add()

    def processes(self, number):
        """Returns the process of a node and all processes that it has started."""
        raylet = psutil.Process(self.nodes[number].all_processes["raylet"][0].process.pid)
        return [raylet, *raylet.children(recursive=True)]

    def end(self):
        self.cluster.shutdown()


class Zoo:
    """A manifest of small models. The pieces of its plan have a few jobs each."""

    def __init__(self, folder, models, bytes_each=2048):
        self.folder = pathlib.Path(folder)
        self.models = models
        (self.folder / "models").mkdir(parents=True)
        for number in range(models):
            write_model(self.folder / f"models/{number}.safetensors", number, bytes_each)
        text = '[[zoo]]\nroot = "models"\noutput = "out/{name}"\nto = "safetensors"\n'
        (self.folder / "zoo.toml").write_text(text)
        self.plan = self.folder / "zoo.plan"

    def make_plan(self, piece_jobs):
        run_ferry(["plan", "zoo.toml", "zoo.plan", "--piece-jobs", str(piece_jobs)], self.folder)

    def outputs(self):
        """Returns the digest of each output, by name."""
        found = (self.folder / "out").glob("*.safetensors")
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    def strangers(self):
        """Returns files in the output folder that are neither outputs nor receipts, such as partial outputs."""
        known = {f"{number}.safetensors{end}" for number in range(self.models) for end in ("", ".ferry.json")}
        return sorted({path.name for path in (self.folder / "out").iterdir()} - known)

    def works(self):
        """Returns the processes that run the pieces of the plan."""
        return [process for process in psutil.process_iter(["cmdline"]) if self._is_work(process.info["cmdline"] or [])]

    def _is_work(self, command):
        return "work" in command and str(self.plan) in command


def write_model(path, seed, bytes_each):
    """Writes a safetensors file with one tensor, without a library because the tests need thousands of files."""
    data = random.Random(seed).randbytes(bytes_each - bytes_each % 4)
    header = f'{{"w":{{"dtype":"F32","shape":[{len(data) // 4}],"data_offsets":[0,{len(data)}]}}}}'
    header = header.ljust(-(-len(header) // 8) * 8).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def run_ferry(arguments, folder):
    return subprocess.run([program(), *arguments], cwd=folder, check=True, capture_output=True, text=True)


class Driver:
    """A `python3 -m tensorferry.ray` process."""

    def __init__(self, zoo, address, *arguments, environment=None):
        command = [sys.executable, "-m", "tensorferry.ray", "zoo.toml", "--plan", str(zoo.plan), "--quiet"]
        command += ["--address", address, *arguments]
        self.zoo = zoo
        self.process = subprocess.Popen(
            command,
            cwd=zoo.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def until_works(self, count):
        """Waits until this many processes run pieces and some jobs have ended."""
        for _ in wait("workers"):
            assert self.process.poll() is None, self.process.stdout.read()
            if len(self.zoo.works()) >= count and any((self.zoo.folder / "out").glob("*.safetensors")):
                return

    def ended(self):
        """Returns the exit code of the driver and the last line of its output."""
        try:
            text, _ = self.process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        lines = [line for line in text.splitlines() if line.strip()]
        return self.process.returncode, lines[-1] if lines else "", text

    def done(self):
        """Returns the last line of the output of a driver that must succeed."""
        code, last, text = self.ended()
        assert code == 0, text
        return last

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def wait(what, seconds=60.0):
    """Yields until the caller leaves the loop, and fails after a time limit."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        yield
        time.sleep(0.05)
    raise AssertionError(f"no {what} after {seconds} s")


def without_tokens():
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
