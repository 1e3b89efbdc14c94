"""Jobs of a manifest on a Ray cluster whose nodes, actors and drivers are killed and frozen.

FERRY_TEST_MODELS is the number of models (default 300). FERRY_TEST_KILLS is the number of random
kills of a driver (default 3).
"""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from ray_cluster import LONGEST, Driver, Nodes, Zoo, run_ferry, wait, without_tokens

import tensorferry
import tensorferry.ray

MODELS = int(os.environ.get("FERRY_TEST_MODELS", "300"))
KILLS = int(os.environ.get("FERRY_TEST_KILLS", "3"))
PIECE_JOBS = max(5, MODELS // 40)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def nodes():
    made = Nodes()
    yield made
    made.end()


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """The digests of the outputs of a run without Ray."""
    zoo = Zoo(tmp_path_factory.mktemp("local"), MODELS)
    run_ferry(["run", "zoo.toml", "--quiet"], zoo.folder)
    outputs = zoo.outputs()
    assert len(outputs) == MODELS == len(set(outputs.values()))
    return outputs


@pytest.fixture
def zoo(tmp_path):
    made = Zoo(tmp_path, MODELS)
    made.make_plan(PIECE_JOBS)
    yield made
    for process in made.works():
        process.kill()


def complete(zoo, right, nodes):
    """Checks the end state of a run.

    All outputs exist, are complete and were written once, so another run has nothing to do. No
    worker process is left. The only partial outputs are those that the next conversion removes.
    """
    assert zoo.outputs() == right
    assert Driver(zoo, nodes.address).done().startswith(f"{MODELS} unchanged in")
    assert zoo.outputs() == right
    for _ in wait("end of all workers"):
        if not zoo.works():
            break
    # A job that was killed may have left its hidden staging files.
    run_ferry(["convert", "models/0.safetensors", "out/last.safetensors"], zoo.folder)
    (zoo.folder / "out/last.safetensors").unlink()
    assert zoo.strangers() == []


def test_all_of_a_zoo(zoo, right, nodes):
    events = []
    import ray

    # The driver runs in this process, as in a notebook.
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    try:
        summary = tensorferry.ray.run(zoo.folder / "zoo.toml", progress=events.append)
    finally:
        ray.shutdown()
    assert summary.totals["done"] == MODELS and summary.exit_code == 0 and summary.failures == []
    assert summary.plan == str(zoo.plan) and summary.bytes_out > MODELS * 2048
    ended = [event["jobs_ended"] for event in events]
    assert ended[-1] == MODELS and max(event["workers"] for event in events) == 4
    complete(zoo, right, nodes)


def test_an_actor_that_is_killed(zoo, right, nodes):
    driver = Driver(zoo, nodes.address)
    driver.until_works(4)
    work = zoo.works()[0]
    actor = psutil.Process(work.ppid())
    assert "Actor" in " ".join(actor.cmdline())
    actor.kill()
    # The children of the actor die immediately after it.
    work.wait(10)
    driver.done()
    complete(zoo, right, nodes)


def test_a_worker_that_is_killed(zoo, right, nodes):
    driver = Driver(zoo, nodes.address)
    driver.until_works(4)
    for work in zoo.works()[:2]:
        work.kill()
    driver.done()
    complete(zoo, right, nodes)


def test_a_node_that_is_killed(zoo, right, nodes):
    driver = Driver(zoo, nodes.address)
    driver.until_works(4)
    processes = nodes.processes(0)
    processes[0].kill()
    driver.done()
    psutil.wait_procs(processes, 30)
    nodes.replace(0)
    complete(zoo, right, nodes)


def test_a_node_that_freezes_and_wakes_after_others_did_its_pieces(zoo, right, nodes):
    driver = Driver(zoo, nodes.address, "--timeout", "8", "--json")
    driver.until_works(4)
    processes = nodes.processes(1)
    for process in processes:
        process.suspend()
    code, _, text = driver.ended()
    # Other workers ran the pieces of the frozen node before Ray noticed the failure.
    assert code == 0 and "it did not answer for 8 s" in text, text
    assert zoo.outputs() == right
    for process in processes:
        if process.is_running():
            process.resume()
    complete(zoo, right, nodes)
    if processes[0].is_running():
        processes[0].kill()
    psutil.wait_procs(processes, 30)
    nodes.replace(1)


def test_drivers_that_are_killed_at_any_moment(zoo, right, nodes):
    seed = int(os.environ.get("FERRY_TEST_SEED", time.time_ns() % 1_000_000))
    print("FERRY_TEST_SEED", seed)
    moments = random.Random(seed)
    for _ in range(KILLS):
        driver = Driver(zoo, nodes.address)
        if moments.random() < 0.7:
            driver.until_works(1)
        time.sleep(moments.uniform(0, 3))
        driver.kill()
        # Ray ends the actors of a dead driver.
        for _ in wait("end of a dead driver's workers"):
            if not zoo.works():
                break
        # The existing outputs are complete.
        assert set(zoo.outputs().items()) <= set(right.items())
    Driver(zoo, nodes.address).done()
    complete(zoo, right, nodes)


def test_ctrl_c_ends_everything_and_the_next_run_goes_on(zoo, right, nodes):
    driver = Driver(zoo, nodes.address)
    driver.until_works(2)
    driver.process.send_signal(signal.SIGINT)
    code, last, text = driver.ended()
    assert code == 130 and "interrupted" in last, text
    for _ in wait("end of the workers", 20):
        if not zoo.works():
            break
    Driver(zoo, nodes.address).done()
    complete(zoo, right, nodes)


def test_what_fails_for_good_is_told_and_not_tried_again(zoo, nodes, tmp_path):
    (tmp_path / "models/7.safetensors").write_bytes(b"\xff" * 100)
    code, _, text = Driver(zoo, nodes.address, "--json").ended()
    assert code == 3 and '"piece-again"' not in text, text
    assert len(zoo.outputs()) == MODELS - 1 and "7.safetensors" not in zoo.outputs()
    code, _, text = Driver(zoo, nodes.address).ended()
    assert code == 3 and "7.safetensors" in text, text


def test_the_program_starts_it(zoo, right, nodes):
    environment = {**os.environ, "FERRY_PYTHON": sys.executable}
    command = ["run", "zoo.toml", "--on", f"ray={nodes.address}", "--plan", str(zoo.plan), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "tensorferry", *command],
        cwd=zoo.folder, env=environment, capture_output=True, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 0 and f"{MODELS} done" in done.stdout, done.stderr
    complete(zoo, right, nodes)


def test_a_manifest_is_planned_where_there_is_no_plan(tmp_path, nodes):
    zoo = Zoo(tmp_path, 10)
    assert Driver(zoo, nodes.address).done().startswith("10 done")
    assert (zoo.plan / "plan.json").exists() and len(zoo.outputs()) == 10
    (tmp_path / "wrong.toml").write_text("[[zoo]]\nroot = 3\n")
    with pytest.raises(tensorferry.UsageError):
        tensorferry.ray.run(tmp_path / "wrong.toml", address=nodes.address)
    with pytest.raises(tensorferry.NotFoundError):
        tensorferry.ray.run(tmp_path / "absent.toml", address=nodes.address)


def test_rays_client_is_refused(tmp_path):
    (tmp_path / "zoo.toml").write_text("")
    with pytest.raises(tensorferry.UsageError, match="ray job submit"):
        tensorferry.ray.run(tmp_path / "zoo.toml", address="ray://head:10001")


HOLD = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def test_a_cluster_that_asks_for_a_token(tmp_path):
    zoo = Zoo(tmp_path, 20)
    zoo.make_plan(5)
    environment = {**without_tokens(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
    head = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        told = (line.split() for line in head.stdout)
        address = next(words[1] for words in told if words[:1] == ["address"])
        assert Driver(zoo, address, environment=environment).done().startswith("20 done")
        wrong = {**environment, "RAY_AUTH_TOKEN": "6" * 64}
        code, last, text = Driver(zoo, address, environment=wrong).ended()
        assert code == 5 and "RAY_AUTH_TOKEN" in last, text
    finally:
        head.stdin.close()
        head.wait(30)
