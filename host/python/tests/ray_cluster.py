"""A Ray cluster of several nodes on this machine, a zoo of models, and drivers that are started, killed and heard."""

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

#: What a driver may take before a test says that it hangs.
LONGEST = 150


class Nodes:
    """A head that does no work, and two nodes that do."""

    def __init__(self):
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.add(), self.add()]

    @property
    def address(self):
        return self.cluster.address

    def add(self):
        return self.cluster.add_node(num_cpus=2)

    def replace(self, number):
        """Another node for one that is dead."""
        with contextlib.suppress(Exception):
            self.cluster.remove_node(self.nodes[number])
        self.nodes[number] = self.add()

    def processes(self, number):
        """The node's own process, and all that it has started."""
        raylet = psutil.Process(self.nodes[number].all_processes["raylet"][0].process.pid)
        return [raylet, *raylet.children(recursive=True)]

    def end(self):
        self.cluster.shutdown()


class Zoo:
    """A manifest of small models; its plan has pieces of a few jobs."""

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
        """The digest of each output, by its name."""
        found = (self.folder / "out").glob("*.safetensors")
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    def strangers(self):
        """What lies in the folder of the outputs and is neither one nor its receipt: what is half-done, say."""
        known = {f"{number}.safetensors{end}" for number in range(self.models) for end in ("", ".ferry.json")}
        return sorted({path.name for path in (self.folder / "out").iterdir()} - known)

    def works(self):
        """The processes that do its pieces."""
        return [process for process in psutil.process_iter(["cmdline"]) if self._is_work(process.info["cmdline"] or [])]

    def _is_work(self, command):
        return "work" in command and str(self.plan) in command


def write_model(path, seed, bytes_each):
    """A safetensors file of one tensor, made by hand: thousands are wanted."""
    data = random.Random(seed).randbytes(bytes_each - bytes_each % 4)
    header = f'{{"w":{{"dtype":"F32","shape":[{len(data) // 4}],"data_offsets":[0,{len(data)}]}}}}'
    header = header.ljust(-(-len(header) // 8) * 8).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def run_ferry(arguments, folder):
    return subprocess.run([program(), *arguments], cwd=folder, check=True, capture_output=True, text=True)


class Driver:
    """`python3 -m tensorferry.ray` on a zoo."""

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
        """Waits for so many processes that do pieces, and for something that they have done."""
        for _ in wait("workers"):
            assert self.process.poll() is None, self.process.stdout.read()
            if len(self.zoo.works()) >= count and any((self.zoo.folder / "out").glob("*.safetensors")):
                return

    def ended(self):
        """Its exit code and the last line of what it says."""
        try:
            text, _ = self.process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        lines = [line for line in text.splitlines() if line.strip()]
        return self.process.returncode, lines[-1] if lines else "", text

    def done(self):
        """The last line, of a driver that has to succeed."""
        code, last, text = self.ended()
        assert code == 0, text
        return last

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def wait(what, seconds=60.0):
    """Turns until whoever waits has what it waits for."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        yield
        time.sleep(0.05)
    raise AssertionError(f"no {what} after {seconds} s")


def without_tokens():
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
