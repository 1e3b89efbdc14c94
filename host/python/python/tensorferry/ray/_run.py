"""Runs the jobs of a manifest on the nodes of a Ray cluster.

The driver creates the plan once. Each actor has one `ferry work` process, which runs the actor's
pieces and ends when the actor ends. An actor returns only a few numbers. `tensorferry._pieces`
schedules, retries and abandons pieces. Ray starts actors, restarts dead actors, and transmits
messages.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

import ray
from ray.exceptions import RayError

from .. import _engine, _pieces
from .._errors import CancelledError, Error, SystemFault, TransientError, UsageError, not_found, usage
from .._pieces import Answer, Ended, Event, Lost
from .._results import _Document
from .._work import Work
from ._bar import bar

# The maximum number of times that an actor may die in a row without answering. After that, the
# actor is replaced.
_MOST_DEATHS = 5
# The maximum number of seconds for leaving the cluster, after all work is done.
_LONGEST_GOODBYE = 10.0
_KINDS: dict[int, tuple[str, type[Error]]] = {
    2: ("usage", UsageError),
    75: ("transient", TransientError),
    130: ("cancelled", CancelledError),
}


class Summary(_Document):
    """The result of a plan: `totals`, the first `failures`, and `exit_code`, as from `ferry run`."""

    __slots__ = ()


def run(  # type: ignore[no-untyped-def]
    manifest,
    *,
    plan=None,
    address=None,
    variables=None,
    only=(),
    actors=None,
    num_cpus=1,
    memory=None,
    progress=True,
    timeout=60.0,
    piece_timeout=None,
    retries=3,
):
    """Runs the jobs of a manifest on a Ray cluster. Another call runs only the remaining jobs.

    Ctrl-C, or the end of this process, ends all running jobs and leaves no partial output.

    Args:
        manifest: A manifest, or the folder of a plan that `ferry plan` created.
        plan: The folder of the plan, which all nodes must share, like the inputs and outputs. By default it is
            `zoo.plan` next to `zoo.toml`. If it does not exist, it is created from the manifest. The folder is kept,
            and records the finished jobs.
        address: The address of a cluster, from one of its nodes. By default, Ray finds a running cluster or starts one
            on this machine.
        variables: Values of the manifest's variables.
        only: Globs of job names. Only these jobs are planned.
        actors: The number of actors. The default is the number for which the cluster has processors.
        num_cpus: The processors, and threads, of each actor.
        memory: The bytes of memory that each actor uses on its node.
        progress: `True` shows a progress bar. A function is called with each event as a mapping.
        timeout: Seconds within which an actor must answer before others run its pieces.
        piece_timeout: Seconds within which a piece must make progress. By default it is unlimited.
        retries: The number of retries of a piece with temporary failures. Malformed inputs are not retried.

    Returns:
        A `Summary`. A failed job raises no exception; the summary shows it.

    Raises:
        UsageError: The manifest cannot be planned.
        SystemFault: No node can run any piece.
    """
    began = time.monotonic()
    _refuse_client(address)
    notes = []
    folder = _planned(manifest, plan, variables, only, notes)
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        planned = json.load(file)
    is_own = not ray.is_initialized()
    if is_own:
        quiet = {} if progress is True else {"logging_level": logging.ERROR}
        ray.init(address=address, log_to_driver=False, **quiet)
    show, end = bar(progress, int(planned["jobs"]))
    try:
        room = int(ray.cluster_resources().get("CPU", 1) // num_cpus) if num_cpus else 1
        engine = RayEngine(folder, num_cpus, memory)
        rules = _pieces.Rules(timeout=timeout, piece_timeout=piece_timeout, retries=retries)
        meters = _Meters(int(planned["jobs"]))

        def listen(event: dict[str, Any]) -> None:
            meters.show(event)
            show(event)

        pieces = range(int(planned["pieces"]))
        outcome = _pieces.run(pieces, engine, actors or max(1, room), rules, listen)
    finally:
        end()
        if is_own:
            _leave()
    return _summary(outcome, folder, notes, time.monotonic() - began)


def _leave() -> None:
    """Disconnects from the cluster without waiting for a frozen node."""
    thread = threading.Thread(target=ray.shutdown, name="leave-ray", daemon=True)
    thread.start()
    thread.join(_LONGEST_GOODBYE)


def _refuse_client(address: str | None) -> None:
    from ray.util.client import ray as client

    given = address if address is not None else os.environ.get("RAY_ADDRESS", "")
    if given.startswith("ray://") or client.is_connected():
        raise usage(
            "the Ray client is not supported, because it loses its work when its connection ends: run this on a node of "
            "the cluster, or use `ray job submit`",
            found=given or "a connected client",
        )


def _planned(manifest: Any, plan: Any, variables: Any, only: Any, notes: list[str]) -> str:
    """Returns the folder of the plan, and creates the plan if it does not exist."""
    path = os.path.abspath(os.fsdecode(os.fspath(manifest)))
    if plan is not None:
        folder = os.path.abspath(os.fsdecode(os.fspath(plan)))
    else:
        folder = path if os.path.isdir(path) else os.path.splitext(path)[0] + ".plan"
    made = os.path.join(folder, "plan.json")
    if os.path.exists(made):
        if os.path.isfile(path) and os.path.getmtime(path) > os.path.getmtime(made):
            notes.append(f"{path} has changed, but the old plan {folder} is used; remove it to make a new plan")
        return folder
    if not os.path.exists(path):
        raise not_found(path)
    command = [_engine.program(), "plan", path, folder, "--json"]
    for key, value in (variables or {}).items():
        command += ["--var", f"{key}={value}"]
    for glob in only:
        command += ["--only", str(glob)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        kind, error_type = _KINDS.get(done.returncode, ("io", SystemFault))
        message = done.stderr.strip().removeprefix("error: ") or f"`ferry plan` ended with code {done.returncode}"
        error = error_type(message)
        error.kind, error.message, error.file = kind, message, path
        raise error
    return folder


def _summary(outcome: _pieces.Outcome, plan: str, notes: list[str], seconds: float) -> Summary:
    return Summary(
        {
            "totals": {
                "done": outcome.done,
                "unchanged": outcome.unchanged,
                "failed": outcome.failed,
                "cancelled": outcome.cancelled,
                "losses": outcome.losses,
            },
            "failures": outcome.failures,
            "exit_code": outcome.exit_code,
            "pieces": outcome.pieces,
            "bytes_in": outcome.bytes_in,
            "bytes_out": outcome.bytes_out,
            "seconds": seconds,
            "plan": plan,
            "notes": notes + outcome.notes,
        }
    )


class Actor:
    """An actor on a node, with its own `ferry work` process."""

    def __init__(self, plan: str, threads: int, memory: int | None) -> None:
        self._work = Work(plan, threads, memory)

    def do(self, piece: int) -> dict[str, Any]:
        return self._work.do(piece)

    def answer(self) -> tuple[dict[int, tuple[int, int]], str | None]:
        return self._work.moved(), self._work.fault()


class RayEngine:
    """An engine whose workers are Ray actors."""

    def __init__(self, plan: str, num_cpus: float, memory: int | None) -> None:
        options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "max_restarts": -1,
            "max_task_retries": 0,
            # The concurrent calls are the pieces in flight, a question, and a second question if it
            # overlaps an earlier answer.
            "max_concurrency": _pieces.Rules.in_flight + 2,
            "scheduling_strategy": "SPREAD",
        }
        if memory is not None:
            options["memory"] = memory
        self._actor = ray.remote(Actor).options(**options)
        self._arguments = (plan, max(1, int(num_cpus)), memory)
        self._actors: dict[Hashable, Any] = {}
        self._deaths: dict[Hashable, int] = {}
        # Maps each pending call to its worker and its piece, or to `None` in place of the piece for
        # a question.
        self._calls: dict[Any, tuple[Hashable, int | None]] = {}
        self._started = 0

    def start(self) -> Hashable:
        name, self._started = self._started, self._started + 1
        self._actors[name] = self._actor.remote(*self._arguments)
        return name

    def give(self, worker: Hashable, piece: int) -> None:
        self._calls[self._actors[worker].do.remote(piece)] = (worker, piece)

    def ask(self, worker: Hashable) -> None:
        self._calls[self._actors[worker].answer.remote()] = (worker, None)

    def stop(self, worker: Hashable) -> None:
        self._forget(worker)
        self._deaths.pop(worker, None)
        ray.kill(self._actors.pop(worker), no_restart=True)

    def wait(self, seconds: float) -> list[Event]:
        if not self._calls:
            time.sleep(seconds)
            return []
        calls = list(self._calls)
        ready, _ = ray.wait(calls, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0)
        events: list[Event] = []
        for call in ready:
            # If another call has already reported that the actor was lost, this call has been
            # removed.
            told = self._calls.pop(call, None)
            if told is not None:
                events.append(self._event(call, *told))
        return events

    def _event(self, call: Any, worker: Hashable, piece: int | None) -> Event:
        try:
            found = ray.get(call)
        except RayError as error:
            self._forget(worker)
            deaths = self._deaths[worker] = self._deaths.get(worker, 0) + 1
            return Lost(worker, _reason(error), deaths >= _MOST_DEATHS)
        if piece is not None:
            return Ended(worker, piece, found)
        self._deaths.pop(worker, None)
        moved, fault = found
        return Answer(worker, moved, fault)

    def _forget(self, worker: Hashable) -> None:
        self._calls = {call: told for call, told in self._calls.items() if told[0] != worker}


def _reason(error: RayError) -> str:
    """Returns the first line that is not empty."""
    cause = getattr(error, "cause", None)
    text = str(cause if isinstance(cause, Error) else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


class _Meters:
    """Metrics of a run for Ray's dashboard and Prometheus."""

    def __init__(self, jobs: int) -> None:
        from ray.util.metrics import Gauge

        texts = {
            "jobs": "Jobs of the plan",
            "jobs_ended": "Jobs that have ended",
            "jobs_failed": "Jobs that have failed",
            "bytes_written": "Bytes of the outputs so far",
            "pieces_left": "Pieces of the plan that have not ended",
            "workers": "Actors that answer",
        }
        self._gauges = {name: Gauge(f"tensorferry_{name}", text) for name, text in texts.items()}
        self._gauges["jobs"].set(jobs)

    def show(self, event: dict[str, Any]) -> None:
        for name, gauge in self._gauges.items():
            if name in event:
                gauge.set(event[name])


def listener_of_lines(write: Callable[[str], object] = sys.stdout.write) -> Callable[[dict[str, Any]], None]:
    """Returns a function that writes each event except progress as a line of JSON."""

    def show(event: dict[str, Any]) -> None:
        if event["event"] != "moved":
            write(json.dumps(event) + "\n")

    return show
