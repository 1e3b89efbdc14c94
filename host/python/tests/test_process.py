"""Forks, threads, leaks, and the cost of importing."""

import ctypes
import multiprocessing
import os
import pickle
import resource
import shutil
import subprocess
import sys
import threading
import time

import numpy
import pyarrow
import pyarrow.parquet
import torch
from conftest import FIXTURES

import tensorferry

PATH = str(FIXTURES / "safetensors/sharded")
model = None


def total(_):
    return sum(float(tensor.numpy().astype(numpy.float64).sum()) for tensor in model.values())


def opened(_):
    with tensorferry.open(PATH) as fresh:
        return len(fresh.torch())


def test_a_forked_pool_uses_what_its_parent_opened(rows):
    global model
    model = tensorferry.open(PATH)
    here = total(0)
    model.torch()
    stream = tensorferry.scan(rows[0]).to_pyarrow()
    stream.read_next_batch()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(total, range(4)).get(60) == [here] * 4
        assert pool.map_async(opened, range(4)).get(60) == [len(model)] * 4
    # The parent process can still read.
    assert total(0) == here and stream.read_next_batch().num_rows


class Rows(torch.utils.data.Dataset):
    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def __getitem__(self, index):
        return self.tensor[index].torch()


def test_a_data_loader_has_workers(tmp_path):
    whole = numpy.arange(64 * 3, dtype=numpy.float32).reshape(64, 3)
    numpy.save(tmp_path / "a.npy", whole)
    (tensor,) = tensorferry.open(tmp_path / "a.npy").values()
    tensor.numpy()
    for context in ["fork", "spawn"]:
        loader = torch.utils.data.DataLoader(
            Rows(tensor), batch_size=8, num_workers=2, multiprocessing_context=context, timeout=120
        )
        assert torch.equal(torch.cat(list(loader)), torch.from_numpy(whole))


def test_a_scan_works_in_a_child(rows):
    scan = tensorferry.scan(rows[0])
    scan.to_pyarrow().read_all()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if scan.to_pyarrow().read_all().num_rows == 10_000 else 2
        finally:
            os._exit(code)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    assert done and os.waitstatus_to_exitcode(status) == 0


def test_threads_read_together():
    with tensorferry.open(PATH) as shared:
        wanted = {name: tensor.bytes() for name, tensor in shared.items()}
        wrong = []

        def read():
            for _ in range(20):
                for name, tensor in shared.items():
                    if tensor.numpy().tobytes() != wanted[name]:
                        wrong.append(name)

        threads = [threading.Thread(target=read) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong and wanted


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_ten_thousand_opens_leak_nothing():
    path = FIXTURES / "safetensors/special_values/model.safetensors"

    def once():
        opened = tensorferry.open(path)
        for tensor in opened.values():
            tensor.__dlpack__()
            tensor.numpy()
        opened.metadata, opened.state, opened.losses

    for _ in range(1000):
        once()
    files, before = len(os.listdir("/proc/self/fd")), memory()
    for _ in range(9000):
        once()
    assert len(os.listdir("/proc/self/fd")) <= files
    # 9,000 leaks of 2 KB each would exceed this bound.
    assert memory() - before < 16 << 20


def test_one_tensor_takes_its_own_memory_alone(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (256, 1 << 20)}
        numpy.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + (1 << 30))
    (tensor,) = tensorferry.open(tmp_path / "a.npy").values()
    before = memory()
    part = tensor[7].torch()
    assert part.untyped_storage().nbytes() == 4 << 20
    assert memory() - before < 64 << 20


def test_importing_loads_nothing():
    code = (
        "import sys; before = set(sys.modules); import tensorferry; "
        "new = set(sys.modules) - before; assert new == {'tensorferry'}, new; tensorferry.open; "
        "loaded = {m.partition('.')[0] for m in sys.modules}; "
        "assert not loaded & {'numpy', 'torch', 'jax', 'pyarrow', 'typing'}, loaded"
    )
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env={**os.environ, "PYTHONPATH": packages()})


def packages():
    return os.path.dirname(os.path.dirname(tensorferry.__file__))


def test_the_program_is_in_the_package():
    told = subprocess.run([sys.executable, "-m", "tensorferry", "formats"], check=True, capture_output=True, text=True)
    assert "safetensors" in told.stdout
    wrong = subprocess.run([sys.executable, "-m", "tensorferry", "inspect", "absent"], capture_output=True)
    assert wrong.returncode == 2


def test_the_program_says_what_it_lacks(tmp_path):
    # The program is only a launcher for the module, which is missing here.
    launcher = shutil.copy(os.path.join(packages(), "tensorferry/_bin/ferry"), tmp_path)
    alone = subprocess.run([launcher, "formats"], capture_output=True, text=True)
    assert alone.returncode == 5 and "install tensorferry again" in alone.stderr


class Ticks:
    """A Python thread that records when it held the GIL."""

    def __enter__(self):
        self.at, self.ended = [time.perf_counter()], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while not self.ended:
            self.at.append(time.perf_counter())
            time.sleep(0.001)

    def __exit__(self, *_):
        self.at.append(time.perf_counter())
        self.ended = True
        self.thread.join()

    def longest_wait(self):
        """Returns the longest period in which the thread did not hold the GIL, as a share of the whole time."""
        at = sorted(self.at)
        return max(b - a for a, b in zip(at, at[1:], strict=False)) / (at[-1] - at[0])


def test_others_run_meanwhile(tmp_path):
    # Check that the measurement can distinguish a held lock from a released lock.
    with Ticks() as ticks:
        ctypes.PyDLL(None).usleep(500_000)
    assert ticks.longest_wait() > 0.8
    whole = numpy.ones((1 << 7, 1 << 20), numpy.float32)
    numpy.save(tmp_path / "a.npy", whole)
    (tensor,) = tensorferry.open(tmp_path / "a.npy").values()
    uses = {
        "numpy": tensor.numpy,
        "part": tensor[1:].numpy,
        "bytes": tensor.bytes,
        "dlpack": lambda: numpy.from_dlpack(tensor),
        "save": lambda: tensorferry.save({"w": whole}, tmp_path / "b.safetensors", force=True),
        "convert": lambda: tensorferry.convert(tmp_path / "a.npy", tmp_path / "c.safetensors", force=True),
        "scan": lambda: tensorferry.write(tensorferry.scan(tmp_path / "rows.parquet"), tmp_path / "rows.jsonl"),
    }
    numbers = numpy.random.default_rng(1).random(1 << 20)
    pyarrow.parquet.write_table(pyarrow.table({"a": numbers, "b": numbers}), tmp_path / "rows.parquet")
    for name, use in uses.items():
        with Ticks() as ticks:
            use()
        assert ticks.longest_wait() < 0.5, name


def test_the_producer_never_needs_pythons_lock(rows):
    # pyarrow reads the whole stream in one call.
    capsule_table = pyarrow.table(tensorferry.scan(rows[0]))
    assert capsule_table.num_rows == 10_000
    assert pickle.loads(pickle.dumps(tensorferry.scan(rows[0]))).schema
