"""Tests how a run handles failures, with simulated workers and a simulated clock."""

import heapq
import itertools

import pytest

import tensorferry
from tensorferry import _pieces
from tensorferry._pieces import Answer, Ended, Lost, Rules

JOBS = 10


class Cluster:
    """An engine whose workers need ten seconds per piece, and whose machines fail on request."""

    def __init__(self, seconds=10.0):
        self.now, self.seconds = 0.0, seconds
        self.events, self.order = [], itertools.count()
        self.names = itertools.count()
        # The pieces of each worker and their end times, including frozen workers.
        self.workers, self.frozen, self.stopped, self.given = {}, set(), [], []
        self.results, self.on_start, self.on_give = {}, lambda name: None, lambda name, piece: None
        self.most = 0
        # The pieces that kill every worker that runs them.
        self.deadly = set()

    def clock(self):
        return self.now

    def later(self, seconds, event):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), event))

    def start(self):
        name = f"w{next(self.names)}"
        self.workers[name] = []
        self.on_start(name)
        return name

    def give(self, name, piece):
        self.given.append((name, piece))
        begun = max([self.now, *(end for _, end in self.workers[name])])
        self.workers[name].append((piece, begun + self.seconds))
        self.most = max(self.most, len(self.workers[name]))
        result = self.results.get(piece, lambda: {"exit_code": 0, "done": JOBS})()
        if piece in self.deadly:
            self.later(begun + self.seconds / 2 - self.now, Lost(name, "out of memory"))
        else:
            self.later(begun + self.seconds - self.now, Ended(name, piece, {"event": "piece-done", "jobs": JOBS, **result}))
        self.on_give(name, piece)

    def ask(self, name):
        moved = {piece: (int(JOBS * (1 - (end - self.now) / self.seconds)), 0) for piece, end in self.workers[name][:1]}
        self.later(0.1, Answer(name, moved))

    def stop(self, name):
        self.stopped.append(name)
        self.workers.pop(name)

    def lose(self, name, comes_back=True):
        """Kills a worker. If it restarts, it has no pieces."""
        self.forget(name)
        self.later(0, Lost(name, "its process died", not comes_back))

    def forget(self, name):
        self.events = [event for event in self.events if event[2].worker != name]
        heapq.heapify(self.events)
        self.workers[name] = []

    def wait(self, seconds):
        until = self.now + seconds
        while self.events and self.events[0][0] <= until:
            self.now, _, event = heapq.heappop(self.events)
            if event.worker in self.frozen or event.worker not in self.workers:
                continue
            if isinstance(event, Ended):
                self.workers[event.worker] = [one for one in self.workers[event.worker] if one[0] != event.piece]
            elif isinstance(event, Lost):
                self.forget(event.worker)
            return [event]
        self.now = until
        return []


def run(cluster, count=20, workers=3, listen=None, **rules):
    outcome = _pieces.run(range(count), cluster, workers, Rules(**rules), listen, cluster.clock)
    assert not cluster.workers, "a worker outlives the run"
    return outcome


def test_everything_is_done_once():
    cluster, told = Cluster(), []
    outcome = run(cluster, listen=told.append)
    assert (outcome.pieces, outcome.done, outcome.failed, outcome.exit_code) == (20, 200, 0, 0)
    assert sorted(piece for _, piece in cluster.given) == list(range(20))
    # Each worker has two pieces at a time and does not pause between them: 20 pieces on 3 workers take 7 turns.
    assert cluster.most == 2 and cluster.now < 75
    ended = [event["jobs_ended"] for event in told]
    assert ended == sorted(ended) and ended[-1] == 200
    # At the end, no worker is idle while a different worker has two pieces.
    assert {worker for worker, _ in cluster.given[-3:]} == {"w0", "w1", "w2"}


def test_nothing_to_do_starts_nothing():
    cluster = Cluster()
    assert run(cluster, count=0).exit_code == 0 and next(cluster.names) == 0


def test_a_worker_that_dies_gives_back_what_it_has():
    cluster = Cluster()
    killed = []

    def kill(name, piece):
        if piece in (4, 9) and piece not in killed:
            killed.append(piece)
            cluster.lose(name, comes_back=piece == 4)

    cluster.on_give = kill
    outcome = run(cluster)
    assert killed == [4, 9] and outcome.done == 200 and outcome.exit_code == 0
    assert {piece for _, piece in cluster.given} == set(range(20)) and len(cluster.given) > 20
    # One of the killed workers restarted under its own name, and the other killed worker was
    # replaced.
    assert next(cluster.names) == 4


def test_a_frozen_worker_is_given_up_and_heard_no_more():
    cluster, told = Cluster(), []

    def freeze(name, piece):
        if piece == 5 and not cluster.frozen:
            cluster.frozen.add(name)

    cluster.on_give = freeze
    outcome = run(cluster, timeout=60, listen=told.append)
    (frozen,) = cluster.frozen
    assert outcome.done == 200 and cluster.stopped[0] == frozen
    (given_up,) = [event for event in told if event["event"] == "worker-given-up"]
    assert "did not answer for 60 s" in given_up["why"]
    lost = [piece for name, piece in cluster.given if name == frozen]
    again = [piece for name, piece in cluster.given if name != frozen]
    assert set(lost[-2:]) <= set(again)
    # The other workers did not wait for the frozen worker.
    assert cluster.now < 60 + 6 * 10


def test_a_worker_whose_piece_does_not_move_is_given_up():
    cluster = Cluster(seconds=1000)
    assert run(cluster, count=3, timeout=60).done == 30
    cluster = Cluster(seconds=100_000)
    outcome = run(cluster, count=3, piece_timeout=500, crashes=2)
    assert outcome.exit_code == 75 and "did not make progress for 500 s" in outcome.failures[0]["message"]


def test_failures_that_may_pass_are_tried_again_later_and_others_are_not():
    cluster = Cluster()
    passing = {"name": "a", "message": "busy", "exit_code": 75, "passing": True}
    for_good = {"name": "b", "message": "malformed", "exit_code": 3, "passing": False}
    answers = {
        1: [{"exit_code": 75, "done": 9, "failed": 1, "failures": [passing]}, {"exit_code": 0, "done": 1}],
        2: [{"exit_code": 3, "done": 9, "failed": 1, "failures": [for_good]}],
        3: [{"exit_code": 3, "done": 8, "failed": 2, "failures": [for_good, passing]}, {"exit_code": 3, "done": 1, "failed": 1, "failures": [for_good]}],
    }
    for piece, all in answers.items():
        cluster.results[piece] = lambda left=iter(all): next(left)
    outcome = run(cluster, count=6, pause=30)
    times = {piece: sum(one == piece for _, one in cluster.given) for piece in range(6)}
    assert times == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 1}
    assert (outcome.done, outcome.unchanged, outcome.failed, outcome.exit_code) == (58, 0, 2, 3)
    assert [failure["name"] for failure in outcome.failures] == ["b", "b"]


def test_what_does_not_pass_is_given_up_after_some_tries():
    cluster = Cluster()
    passing = {"name": "a", "message": "busy", "exit_code": 75, "passing": True}
    cluster.results[0] = lambda: {"exit_code": 75, "failed": 1, "done": 0, "failures": [passing]}
    cluster.results[1] = lambda: {"exit_code": 5, "jobs": 0, "message": "the journal cannot be written"}
    outcome = run(cluster, count=3, retries=3, pause=2)
    assert [sum(one == piece for _, one in cluster.given) for piece in range(3)] == [4, 4, 1]
    assert outcome.exit_code == 5
    assert sorted(failure["message"] for failure in outcome.failures) == ["busy", "the journal cannot be written"]


def test_a_piece_that_kills_its_workers_is_given_up_alone():
    cluster = Cluster()
    cluster.deadly = {7}
    outcome = run(cluster, crashes=4)
    assert (outcome.done, outcome.exit_code) == (190, 75)
    (failure,) = outcome.failures
    assert failure["name"] == "piece 7" and "4 workers" in failure["message"]


def test_workers_that_can_do_nothing_end_the_run_with_their_reason():
    cluster = Cluster()
    cluster.ask = lambda name: cluster.later(0.1, Answer(name, {}, "node 10.0.0.1 does not see /plan"))
    with pytest.raises(tensorferry.SystemFault, match=r"10\.0\.0\.1 does not see"):
        run(cluster)
    assert not cluster.given and not cluster.workers
    cluster = Cluster()
    cluster.ask = lambda name: cluster.later(0.1, Lost(name, "no module named tensorferry"))
    with pytest.raises(tensorferry.SystemFault, match="no module named"):
        run(cluster)


def test_one_bad_machine_is_no_bad_run():
    cluster = Cluster()
    right = cluster.ask
    cluster.ask = lambda name: cluster.later(0.1, Answer(name, {}, "no space")) if name == "w1" else right(name)
    outcome = run(cluster)
    assert outcome.done == 200 and outcome.notes == ["no space"]


def test_a_cluster_that_is_full_is_waited_for_and_told_of():
    cluster = Cluster()
    right = cluster.ask
    # The cluster has room after two minutes.
    cluster.ask = lambda name: right(name) if cluster.now >= 120 else cluster.later(120 - cluster.now, Answer(name, {}))
    outcome = run(cluster)
    assert outcome.done == 200 and outcome.exit_code == 0
    (note,) = outcome.notes
    assert "no room" in note


def test_an_interrupted_run_stops_its_workers():
    cluster = Cluster()

    def stop(event):
        if event["event"] == "piece-done":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cluster, listen=stop)
    assert not cluster.workers and len(cluster.stopped) == 3
