"""Processes that hold one framework each: TensorFlow, torch and JAX end a process that has two of them."""

import atexit
import ctypes
import importlib
import multiprocessing
import signal
import sys
from concurrent.futures import ProcessPoolExecutor

_pools: dict[str, ProcessPoolExecutor] = {}


def remote(module: str, function: str):
    """Returns a function that calls one of a module in the process of that module."""

    def call(*arguments):
        if module not in _pools:
            context = multiprocessing.get_context("spawn")
            # streaming never closes the shared memory of its datasets.
            _pools[module] = ProcessPoolExecutor(1, context, initializer=_end_with_parent, max_tasks_per_child=500)
        try:
            return _pools[module].submit(_call, sys.path[0], module, function, arguments).result(timeout=300)
        except (TimeoutError, OSError, RuntimeError):
            # The next call starts a new process.
            if getattr(_pools[module], "_broken", False):
                _pools.pop(module).shutdown(wait=False, cancel_futures=True)
            raise

    return call


def _call(folder, module, function, arguments):
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return getattr(importlib.import_module(module), function)(*arguments)


def _end_with_parent():
    """Has Linux end this process when the one that started it crashes."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@atexit.register
def stop():
    for pool in _pools.values():
        pool.shutdown(wait=False, cancel_futures=True)
