"""Starts the ranks of a distributed run, each as a local process."""

import os
import socket

import torch
import torch.multiprocessing


def run(function, count, *arguments):
    """Calls `function(rank, *arguments)` in `count` processes, and waits for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The processes are forks of this process, so they do not spend seconds importing the frameworks
    # again.
    arguments = (count, port, function, arguments)
    torch.multiprocessing.start_processes(start, arguments, nprocs=count, start_method="fork")


def start(rank, count, port, function, arguments):
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    function(rank, *arguments)
