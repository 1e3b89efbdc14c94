"""Schedules the pieces of a plan on workers on other machines, with a queue, retries, timeouts and progress.

A worker is a `ferry work` process on any machine. An `Engine` starts workers and communicates with
them; `tensorferry.ray` contains the engine for Ray. This module does not depend on Ray. It handles
failures by these rules:

- A worker that does not answer in time is abandoned, and other workers run its pieces. If the
worker is still running on a machine that cannot be reached, it does no harm, because only one
worker can commit an output.
- A piece with temporary failures is retried a few times, with increasing pauses. A piece with
permanent failures is not retried.
- A piece whose workers die repeatedly is abandoned.

The journals of the plan record the finished jobs, so that another run runs only the remaining jobs.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._errors import SystemFault

# #: Exit code of `ferry` if a job failed permanently.
FAILED = 3
# #: Exit code if no job of the piece could be started.
SYSTEM = 5
# #: Exit code if all failures are temporary.
PASSING = 75
# #: Exit code if the piece was interrupted.
CANCELLED = 130

# The maximum number of questions per second to all workers, the minimum number of seconds between
# questions to one worker, and the maximum pause, in seconds, before a retry.
_QUESTIONS = 200
_SHORTEST_PERIOD = 1.0
_LONGEST_PAUSE = 60.0
# The maximum number of failures in a result, to keep the result small.
_MOST_FAILURES = 100


@dataclass(frozen=True)
class Answer:
    """A worker's answer. `moved` maps each piece that it has begun to the numbers of ended jobs and output bytes."""

    worker: Hashable
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Why the worker cannot run any piece, for example because its machine cannot access the plan.
    fault: str | None = None


@dataclass(frozen=True)
class Ended:
    """A worker has ended a piece. `result` is the result that `ferry work` reported."""

    worker: Hashable
    piece: int
    result: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A worker has died, and its pieces are lost. If it restarts under the same name, it answers again."""

    worker: Hashable
    why: str
    # Whether the worker will not restart.
    is_gone: bool = False


Event = Answer | Ended | Lost


class Engine(Protocol):
    """Starts workers and communicates with them. Only `wait` may block."""

    def start(self) -> Hashable:
        """Starts a worker, now or as soon as there is room for one, and returns its unique name."""

    def give(self, worker: Hashable, piece: int) -> None:
        """Queues a piece for a worker. An event `Ended` or `Lost` follows."""

    def ask(self, worker: Hashable) -> None:
        """Asks a worker for its progress. The worker's next event, if any, is `Answer` or `Lost`."""

    def stop(self, worker: Hashable) -> None:
        """Ends a worker and its running jobs, if it can be reached. No more events of this worker follow."""

    def wait(self, seconds: float) -> Iterable[Event]:
        """Waits for events, and returns them as soon as there are any, or nothing after `seconds`."""


@dataclass
class Rules:
    """Timeouts and retries of a run."""

    # The number of pieces that a worker has at the same time, so that it can start the next one
    # immediately.
    in_flight: int = 2
    # The number of seconds within which a worker must answer.
    timeout: float = 60.0
    # The number of seconds within which a piece must make progress. `None` means no limit.
    piece_timeout: float | None = None
    # The number of retries of a piece with temporary failures, and the first pause in seconds.
    retries: int = 3
    pause: float = 2.0
    # The number of workers that may die while they run the same piece.
    crashes: int = 5


@dataclass
class Piece:
    """The state of a piece."""

    number: int
    attempts: int = 0
    crashes: int = 0
    done: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    losses: int = 0
    # The result of the last attempt.
    result: dict[str, Any] = field(default_factory=dict)

    def add(self, result: dict[str, Any]) -> None:
        self.attempts += 1
        self.done += int(result.get("done", 0))
        self.losses += int(result.get("losses", 0))
        self.bytes_in += int(result.get("bytes_in", 0))
        self.bytes_out += int(result.get("bytes_out", 0))
        self.result = result


@dataclass
class Outcome:
    """The result of a run."""

    pieces: int = 0
    done: int = 0
    unchanged: int = 0
    failed: int = 0
    cancelled: int = 0
    losses: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    exit_code: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Adds a piece that has ended."""
        result = piece.result
        jobs, failed, cancelled = (int(result.get(key, 0)) for key in ("jobs", "failed", "cancelled"))
        self.pieces += 1
        self.done += piece.done
        self.failed += failed
        self.cancelled += cancelled
        # The last attempt reports jobs that an earlier attempt finished as unchanged.
        self.unchanged += max(0, jobs - piece.done - failed - cancelled)
        self.losses += piece.losses
        self.bytes_in += piece.bytes_in
        self.bytes_out += piece.bytes_out
        told = list(result.get("failures", ()))
        if not told and result.get("message"):
            told = [{"name": f"piece {piece.number}", "message": result["message"], "exit_code": result["exit_code"]}]
        self.failures += told[: max(0, _MOST_FAILURES - len(self.failures))]
        self.exit_code = _worse(self.exit_code, int(result.get("exit_code", 0)))


def _worse(a: int, b: int) -> int:
    """Returns the worse of two exit codes. Permanent failures are worse than temporary ones."""
    order = [0, PASSING, FAILED, SYSTEM, CANCELLED]
    return max(a, b, key=lambda code: order.index(code) if code in order else len(order))


@dataclass
class _Worker:
    """The state of a worker."""

    # Maps each piece to its progress and to the time at which the progress last changed.
    pieces: dict[int, tuple[tuple[int, int], float]] = field(default_factory=dict)
    # Whether the worker has answered since it was last started.
    is_up: bool = False
    # Whether the worker has ever answered. Until its first answer, it may be waiting for a machine.
    was_up: bool = False
    # The time of the question that the worker has not answered yet.
    asked: float | None = None
    # The time of the next question to the worker.
    next: float = 0.0


def run(
    pieces: Sequence[int],
    engine: Engine,
    workers: int,
    rules: Rules | None = None,
    listen: Callable[[dict[str, Any]], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Runs all pieces, and stops all workers at the end.

    Args:
        pieces: The numbers of the pieces.
        engine: Starts the workers.
        workers: The number of workers.
        rules: Timeouts and retries.
        listen: A function that is called with each event, a mapping that contains `"event"`.
        clock: A function that returns the time in seconds.

    Raises:
        SystemFault: No worker can run any piece.
    """
    state = _Run(pieces, engine, rules or Rules(), listen or (lambda event: None), clock)
    try:
        return state.run(max(1, min(workers, len(pieces))))
    finally:
        for worker in list(state.workers):
            engine.stop(worker)


class _Run:
    def __init__(
        self,
        pieces: Sequence[int],
        engine: Engine,
        rules: Rules,
        listen: Callable[[dict[str, Any]], object],
        clock: Callable[[], float],
    ) -> None:
        self.engine, self.rules, self.listen, self.clock = engine, rules, listen, clock
        self.open = {number: Piece(number) for number in pieces}
        self.queue = deque(pieces)
        # The pieces that wait for a retry, as pairs of the time of the retry and the piece.
        self.later: list[tuple[float, int]] = []
        self.workers: dict[Hashable, _Worker] = {}
        self.outcome = Outcome()
        self.began = clock()
        # The number of unusable workers that may still be replaced.
        self.spare = 0

    def run(self, workers: int) -> Outcome:
        if not self.open:
            return self.outcome
        self.spare = workers + 3
        for _ in range(workers):
            self.start()
        while self.open:
            self.ask_and_give()
            if not self.workers:
                raise _fault(self.outcome.notes[-1] if self.outcome.notes else "no worker is left")
            for event in self.engine.wait(self.until_next()):
                self.take(event)
            self.give_up()
        return self.outcome

    def start(self) -> None:
        self.workers[self.engine.start()] = _Worker(next=self.clock())

    def take(self, event: Event) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            return
        if isinstance(event, Answer):
            self.answered(event, worker)
        elif isinstance(event, Ended):
            if worker.pieces.pop(event.piece, None) is not None:
                # The worker has just begun its next piece, so the time limit of that piece starts
                # now.
                now = self.clock()
                worker.pieces = {number: (moved, now) for number, (moved, _) in worker.pieces.items()}
                self.ended(self.open[event.piece], event.result)
        else:
            self.lost(event.worker, event.why, event.is_gone)

    def answered(self, answer: Answer, worker: _Worker) -> None:
        now = self.clock()
        worker.asked, worker.next = None, now + max(_SHORTEST_PERIOD, len(self.workers) / _QUESTIONS)
        if answer.fault is not None:
            self.note(answer.fault)
            self.drop(answer.worker)
            self.spare -= 1
            if self.spare >= 0:
                self.start()
            return
        if not worker.is_up:
            worker.is_up = worker.was_up = True
            self.tell("worker-up")
        changed = False
        for number, moved in answer.moved.items():
            known = worker.pieces.get(number)
            if known is not None and known[0] != moved:
                worker.pieces[number] = (moved, now)
                changed = True
        if changed:
            self.tell("moved")

    def ended(self, piece: Piece, result: dict[str, Any]) -> None:
        piece.add(result)
        code = int(result.get("exit_code", 0))
        may_pass = code in (PASSING, SYSTEM) or any(failure.get("passing") for failure in result.get("failures", ()))
        if code == CANCELLED:
            self.crashed(piece, "its worker was ended")
        elif may_pass and piece.attempts <= self.rules.retries:
            pause = min(_LONGEST_PAUSE, self.rules.pause * 2 ** (piece.attempts - 1))
            heapq.heappush(self.later, (self.clock() + pause, piece.number))
            self.tell("piece-again", piece=piece.number, seconds=pause)
        else:
            self.close(piece)

    def close(self, piece: Piece) -> None:
        del self.open[piece.number]
        self.outcome.add(piece)
        facts = {**piece.result, "piece": piece.number, "done": piece.done, "attempts": piece.attempts}
        facts.pop("event", None)
        self.tell("piece-done", **facts)

    def crashed(self, piece: Piece, why: str) -> None:
        """Handles the death, or the apparent death, of a piece's worker."""
        piece.crashes += 1
        if piece.crashes < self.rules.crashes:
            self.queue.appendleft(piece.number)
            return
        message = f"abandoned after {piece.crashes} workers died while running it: {why}"
        piece.result = {**piece.result, "exit_code": PASSING, "message": message}
        self.close(piece)

    def lost(self, name: Hashable, why: str, is_gone: bool) -> None:
        worker = self.workers[name]
        self.take_back(worker, why)
        self.tell("worker-lost", why=why)
        if not worker.was_up:
            # The worker died before its first answer, and may do so every time it is started.
            self.note(f"a worker cannot be started: {why}")
            self.spare -= 1
        if is_gone or self.spare < 0:
            self.drop(name)
            if self.spare >= 0:
                self.start()
            return
        # The worker's time limit for an answer starts now, and the next question follows soon.
        now = self.clock()
        worker.asked = worker.asked if worker.asked is not None and not worker.is_up else now
        worker.is_up, worker.next = False, now + min(self.rules.pause, _SHORTEST_PERIOD)

    def take_back(self, worker: _Worker, why: str) -> None:
        """Returns the pieces of a worker to the queue. Only the first piece can have caused the worker's death."""
        pieces = list(worker.pieces)
        worker.pieces.clear()
        self.queue.extendleft(reversed(pieces[1:]))
        for first in pieces[:1]:
            self.crashed(self.open[first], why)

    def give_up(self) -> None:
        """Abandons workers that do not answer or whose pieces make no progress."""
        now = self.clock()
        if now - self.began >= self.rules.timeout and not any(worker.was_up for worker in self.workers.values()):
            self.note("no worker has started yet: the cluster may have no room for one")
        for name, worker in list(self.workers.items()):
            silent = worker.asked is not None and worker.was_up and now - worker.asked >= self.rules.timeout
            limit = self.rules.piece_timeout
            since = next((since for _, since in worker.pieces.values()), now)
            if not silent and (limit is None or now - since < limit):
                continue
            seconds = self.rules.timeout if silent else limit
            why = f"it did not {'answer' if silent else 'make progress'} for {seconds:g} s"
            self.take_back(worker, why)
            self.drop(name)
            self.tell("worker-given-up", why=why)
            self.start()

    def ask_and_give(self) -> None:
        now = self.clock()
        while self.later and self.later[0][0] <= now:
            self.queue.append(heapq.heappop(self.later)[1])
        up = sum(worker.is_up for worker in self.workers.values())
        for name, worker in self.workers.items():
            if worker.next <= now:
                # Each worker has at most one unanswered question. A lost worker will not answer its
                # last question, so it gets a new one.
                if worker.asked is None or not worker.is_up:
                    worker.asked = worker.asked if worker.asked is not None else now
                    self.engine.ask(name)
                worker.next = float("inf")
        # Every worker first gets one piece. Workers get more pieces only while enough are left to
        # keep all workers busy.
        for most in range(1, self.rules.in_flight + 1):
            for name, worker in self.workers.items():
                enough = len(self.queue) > (0 if most == 1 else up)
                if worker.is_up and len(worker.pieces) < most and enough:
                    piece = self.queue.popleft()
                    worker.pieces[piece] = ((0, 0), now)
                    self.engine.give(name, piece)

    def until_next(self) -> float:
        """Returns the seconds until the next deadline."""
        now = self.clock()
        due = [worker.next for worker in self.workers.values()]
        due += [worker.asked + self.rules.timeout for worker in self.workers.values() if worker.asked is not None]
        due += [self.later[0][0]] if self.later else []
        return min(1.0, max(0.01, min(due, default=now) - now))

    def drop(self, name: Hashable) -> None:
        del self.workers[name]
        self.engine.stop(name)

    def note(self, text: str) -> None:
        if text not in self.outcome.notes:
            self.outcome.notes.append(text)
            self.tell("note", message=text)

    def tell(self, event: str, **facts: Any) -> None:
        moved = [moved for worker in self.workers.values() for moved, _ in worker.pieces.values()]
        totals = self.outcome
        self.listen(
            {
                "event": event,
                **facts,
                "jobs_ended": totals.done + totals.unchanged + totals.failed + sum(jobs for jobs, _ in moved),
                "bytes_written": totals.bytes_out + sum(size for _, size in moved),
                "jobs_failed": totals.failed,
                "pieces_left": len(self.open),
                "workers": sum(worker.is_up for worker in self.workers.values()),
            }
        )


def _fault(message: str) -> SystemFault:
    error = SystemFault(message)
    error.kind, error.message = "io", message
    return error
