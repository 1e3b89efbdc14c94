"""Pieces of a plan, done by workers on other machines: the queue, retries, time-outs and how far all of it is.

A worker is a `ferry work` somewhere, and an `Engine` is what starts workers and talks to them: `tensorferry.ray` has the
one for Ray. Nothing here knows of Ray, and nothing of what is decided here is left to it:

- a worker that does not answer in time is given up, and so is what it has: other workers do its pieces. That it may go on
  where nobody hears it does no harm, since every commit is exclusive
- a piece with failures that may pass is done again, a few times, later each time; one whose failures stay is not
- a piece whose workers die again and again is given up

What has been done stands in the journals of the plan, not here: running again does what is left.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._errors import SystemFault

#: Ended for good, with a failed job: `ferry`'s exit code.
FAILED = 3
#: Nothing of the piece could be begun.
SYSTEM = 5
#: All that failed may pass.
PASSING = 75
#: Ended before it was done.
CANCELLED = 130

# How many pieces a second the engine may be asked about, and how often a worker is asked at most.
_QUESTIONS = 200
_SHORTEST_PERIOD = 1.0
_LONGEST_PAUSE = 60.0
# Failures that a result keeps: it has to stay small.
_MOST_FAILURES = 100


@dataclass(frozen=True)
class Answer:
    """A worker is there; for each piece that it has begun, the jobs that have ended and the bytes of their outputs."""

    worker: Hashable
    moved: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Why it can do no piece at all: its machine does not see the plan, say.
    fault: str | None = None


@dataclass(frozen=True)
class Ended:
    """A worker has done a piece: what `ferry work` says of it."""

    worker: Hashable
    piece: int
    result: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A worker has died, with what it had. It may come back under its name, and answers then."""

    worker: Hashable
    why: str
    # Whether it never comes back.
    is_gone: bool = False


Event = Answer | Ended | Lost


class Engine(Protocol):
    """What starts workers and talks to them. No call but `wait` takes longer than a moment."""

    def start(self) -> Hashable:
        """Starts a worker, now or as soon as there is room for one; gives its name, which no other has."""

    def give(self, worker: Hashable, piece: int) -> None:
        """Gives it a piece to do, after those that it has: `Ended` or `Lost` follows."""

    def ask(self, worker: Hashable) -> None:
        """Asks whether it is there and how far it is: `Answer` or `Lost` follows, or nothing at all."""

    def stop(self, worker: Hashable) -> None:
        """Ends a worker and what it does, as far as it can be reached; no event of it follows."""

    def wait(self, seconds: float) -> Iterable[Event]:
        """What has happened, as soon as something has; nothing, after so many seconds."""


@dataclass
class Rules:
    """How patient a run is."""

    # Pieces that a worker has at once: the next one is there when it has ended one.
    in_flight: int = 2
    # Seconds in which a worker has to answer.
    timeout: float = 60.0
    # Seconds in which something of a piece has to have moved; none: it may take for ever.
    piece_timeout: float | None = None
    # How often a piece with failures that may pass is done again, and the first pause before that.
    retries: int = 3
    pause: float = 2.0
    # How often the workers of a piece may die.
    crashes: int = 5


@dataclass
class Piece:
    """What is known of a piece."""

    number: int
    attempts: int = 0
    crashes: int = 0
    done: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    losses: int = 0
    # Of the last attempt.
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
    """What a run came to."""

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
        # What another attempt has done is unchanged in the last one.
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
    """The exit code of both: what cannot pass counts more than what may."""
    order = [0, PASSING, FAILED, SYSTEM, CANCELLED]
    return max(a, b, key=lambda code: order.index(code) if code in order else len(order))


@dataclass
class _Worker:
    """What is known of a worker."""

    # By piece, how far it is and since when.
    pieces: dict[int, tuple[tuple[int, int], float]] = field(default_factory=dict)
    # Whether it has answered since it was started or came back.
    is_up: bool = False
    # Whether it ever has: until then it may wait for a machine.
    was_up: bool = False
    # When it was asked what it has not answered yet.
    asked: float | None = None
    # When it is asked next.
    next: float = 0.0


def run(
    pieces: Sequence[int],
    engine: Engine,
    workers: int,
    rules: Rules | None = None,
    listen: Callable[[dict[str, Any]], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Does all pieces on so many workers. `listen` is told what happens, as mappings with an `"event"`.

    Raises `SystemFault` if no worker can do anything. Whatever ends it, all workers are stopped.
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
        # Pieces that wait for another try: when, and which.
        self.later: list[tuple[float, int]] = []
        self.workers: dict[Hashable, _Worker] = {}
        self.outcome = Outcome()
        self.began = clock()
        # How many workers that can do nothing are still replaced.
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
                # Nothing has moved of the one behind it because it had not begun.
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
        """A piece's worker has died, or seems to have."""
        piece.crashes += 1
        if piece.crashes < self.rules.crashes:
            self.queue.appendleft(piece.number)
            return
        message = f"given up after {piece.crashes} workers that died with it: {why}"
        piece.result = {**piece.result, "exit_code": PASSING, "message": message}
        self.close(piece)

    def lost(self, name: Hashable, why: str, is_gone: bool) -> None:
        worker = self.workers[name]
        self.take_back(worker, why)
        self.tell("worker-lost", why=why)
        if not worker.was_up:
            # It dies before it has begun anything, and maybe always will.
            self.note(f"a worker cannot be started: {why}")
            self.spare -= 1
        if is_gone or self.spare < 0:
            self.drop(name)
            if self.spare >= 0:
                self.start()
            return
        # It has to answer from now on, and is asked again in a moment.
        now = self.clock()
        worker.asked = worker.asked if worker.asked is not None and not worker.is_up else now
        worker.is_up, worker.next = False, now + min(self.rules.pause, _SHORTEST_PERIOD)

    def take_back(self, worker: _Worker, why: str) -> None:
        """The pieces of a worker go back to the queue; the first is what it died of, if it died of one."""
        pieces = list(worker.pieces)
        worker.pieces.clear()
        self.queue.extendleft(reversed(pieces[1:]))
        for first in pieces[:1]:
            self.crashed(self.open[first], why)

    def give_up(self) -> None:
        """Gives up the workers that do not answer, or whose pieces do not move."""
        now = self.clock()
        if now - self.began >= self.rules.timeout and not any(worker.was_up for worker in self.workers.values()):
            self.note("no worker has started yet: maybe the cluster has no room for one")
        for name, worker in list(self.workers.items()):
            silent = worker.asked is not None and worker.was_up and now - worker.asked >= self.rules.timeout
            limit = self.rules.piece_timeout
            since = next((since for _, since in worker.pieces.values()), now)
            if not silent and (limit is None or now - since < limit):
                continue
            seconds = self.rules.timeout if silent else limit
            why = f"it did not {'answer' if silent else 'move'} for {seconds:g} s"
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
                # One question at a time, but of one that was lost: its answer is not on the way.
                if worker.asked is None or not worker.is_up:
                    worker.asked = worker.asked if worker.asked is not None else now
                    self.engine.ask(name)
                worker.next = float("inf")
        # First one for everybody; another one where there are enough that nobody waits for it in the end.
        for most in range(1, self.rules.in_flight + 1):
            for name, worker in self.workers.items():
                enough = len(self.queue) > (0 if most == 1 else up)
                if worker.is_up and len(worker.pieces) < most and enough:
                    piece = self.queue.popleft()
                    worker.pieces[piece] = ((0, 0), now)
                    self.engine.give(name, piece)

    def until_next(self) -> float:
        """Seconds until something is due."""
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
