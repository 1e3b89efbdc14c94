"""A `ferry work` process that receives pieces of a plan and reports their results."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from queue import SimpleQueue
from typing import Any

from ._engine import program
from ._errors import TransientError

# The maximum length of each string in a result, because a few long messages would make the result
# large.
_MOST_TEXT = 1000


class Work:
    """A long-lived process that runs one piece after another.

    The process ends when this process ends, for any reason. If it dies first, the waiting callers
    get an error, and the next piece starts a new process.
    """

    def __init__(self, plan: str, threads: int | None = None, memory: int | None = None) -> None:
        self.plan = plan
        self._arguments = ["work", plan, "--runner", str(os.getpid())]
        self._arguments += [] if threads is None else ["--threads", str(threads)]
        self._arguments += [] if memory is None else ["--memory", str(memory)]
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def do(self, piece: int) -> dict[str, Any]:
        """Runs a piece, after the pieces that other callers wait for, and returns its result.

        Raises:
            TransientError: The process died.
        """
        with self._lock:
            if self._process is None or not self._process.is_alive:
                self._process = _Process([program(), *self._arguments])
            answer = self._process.give(piece)
        found = answer.get()
        if isinstance(found, str):
            error = TransientError(f"temporary failure: {found}")
            error.kind, error.message = "transient", found
            raise error
        return found

    def moved(self) -> dict[int, tuple[int, int]]:
        """Returns, for each piece that has begun, the number of ended jobs and the bytes of their outputs."""
        process = self._process
        return {} if process is None else dict(process.moved)

    def fault(self) -> str | None:
        """Returns why this machine cannot run any piece of the plan, or `None`."""
        if os.path.exists(os.path.join(self.plan, "plan.json")):
            return None
        return f"{socket.gethostname()} cannot access the plan {self.plan}: it must be in a folder that all nodes share"

    def close(self) -> None:
        """Ends the process and its running jobs."""
        with self._lock:
            if self._process is not None:
                self._process.end()


class _Process:
    """A run of the program, and the thread that reads its output."""

    def __init__(self, command: list[str]) -> None:
        self.is_alive = True
        # Maps each piece to the numbers of its ended jobs and output bytes.
        self.moved: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, SimpleQueue[dict[str, Any] | str]] = {}
        self._lock = threading.Lock()
        started: SimpleQueue[subprocess.Popen[str] | OSError] = SimpleQueue()
        # The kernel ends the process when the thread that started it ends. The thread that reads
        # the output therefore starts the process.
        thread = threading.Thread(target=self._listen, args=(command, started), name="ferry-work", daemon=True)
        thread.start()
        process = started.get()
        if isinstance(process, OSError):
            raise process
        self._process = process

    def give(self, piece: int) -> SimpleQueue[dict[str, Any] | str]:
        """Sends a piece, and returns a queue that will receive its result, or the reason for its failure."""
        answer: SimpleQueue[dict[str, Any] | str] = SimpleQueue()
        with self._lock:
            if not self.is_alive:
                answer.put("`ferry work` has ended")
                return answer
            self._waiting[piece] = answer
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"piece": piece}) + "\n")
            self._process.stdin.flush()
        except OSError:
            # The process has died. The listening thread reports this to all waiting callers.
            pass
        return answer

    def end(self) -> None:
        self._process.kill()

    def _listen(self, command: list[str], started: SimpleQueue[subprocess.Popen[str] | OSError]) -> None:
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            started.put(error)
            return
        started.put(process)
        assert process.stdout is not None
        for line in process.stdout:
            self._hear(line)
        code = process.wait()
        why = f"`ferry work` was ended by signal {-code}" if code < 0 else f"`ferry work` ended with code {code}"
        with self._lock:
            self.is_alive = False
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for answer in waiting:
            answer.put(why)

    def _hear(self, line: str) -> None:
        try:
            told = json.loads(line)
            kind, piece = told["event"], int(told["piece"])
        except (ValueError, TypeError, KeyError):
            return
        if kind == "piece-moved":
            self.moved[piece] = (int(told.get("jobs", 0)), int(told.get("bytes", 0)))
        elif kind in ("piece-done", "piece-failed"):
            self.moved.pop(piece, None)
            with self._lock:
                answer = self._waiting.pop(piece, None)
            if answer is not None:
                answer.put(_short(told))


def _short(told: dict[str, Any]) -> dict[str, Any]:
    """Returns a result with long strings cut off."""
    failures = [
        {key: value[:_MOST_TEXT] if isinstance(value, str) else value for key, value in failure.items()}
        for failure in told.get("failures", ())
    ]
    return {**told, "failures": failures} if failures else told
