"""Processes with one framework each, because TensorFlow, torch and JAX crash a process that loads two of them."""

import atexit
import ctypes
import importlib
import multiprocessing
import signal
import sys
from concurrent.futures import ProcessPoolExecutor

_pools: dict[str, ProcessPoolExecutor] = {}


def remote(module: str, function: str):
    """Returns a function that calls a function of a module in that module's process."""

    def call(*arguments):
        if module not in _pools:
            context = multiprocessing.get_context("spawn")
            # The `streaming` library never closes the shared memory of its datasets, so the process
            # is replaced from time to time.
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
    """Makes Linux kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@atexit.register
def stop():
    for pool in _pools.values():
        pool.shutdown(wait=False, cancel_futures=True)
