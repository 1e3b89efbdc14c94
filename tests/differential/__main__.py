"""Compares ferry with other libraries on random files: see CONTRIBUTING.md.

    python tests/differential --ferry target/debug/ferry --seed 1 --cases 500
    python tests/differential --ferry target/debug/ferry --seed 1 --case records:17      one case; keeps its files
    python tests/differential --ferry target/release/ferry --seconds 7200 --state rig.json   continues an earlier run
"""

import argparse
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

os.environ["RUST_BACKTRACE"] = "0"
warnings.filterwarnings("ignore")
faulthandler.enable()

import cases
import workers


def main():
    arguments = parse()
    if arguments.case:
        sys.exit(one(arguments))
    with tempfile.TemporaryDirectory() as folder:
        arguments.state = arguments.state or Path(folder) / "state.json"
        arguments.end = time.monotonic() + arguments.seconds
        state = load(arguments)
        arguments.last = state["cases"] + arguments.cases
        print(f"seed {state['next']}", flush=True)
        while not is_done(arguments, state):
            # Libraries crash on some files. A crashed process is replaced, and its case is skipped.
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    loop(arguments, state)
                    workers.stop()
                    code = 0
                except Exception:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            state = load(arguments)
            if status:
                ended = signal.Signals(-status).name if status < 0 else f"exit code {status}"
                state["crashes"][str(state["next"])] = ended
                print(f"\nseed {state['next']} ended with {ended}", flush=True)
                state["next"] += 1
        report(state)
    sys.exit(1 if state["found"] else 0)


def load(arguments):
    if arguments.state.exists():
        return json.loads(arguments.state.read_text())
    return {"next": arguments.seed, "cases": 0, "crashes": {}, "skipped": {}, "counts": {}, "found": {}, "refused": {}, "explained": {}}


def is_done(arguments, state):
    return time.monotonic() >= arguments.end or state["cases"] >= arguments.last


def loop(arguments, state):
    while not is_done(arguments, state):
        save(arguments.state, state)
        for domain in arguments.domain or cases.DOMAINS:
            result = run(arguments, domain, state["next"], None)
            for kind, number in result.counts.items():
                add(state["counts"], f"{result.pair} {kind}", number)
            for why, number in result.explained.items():
                add(state["explained"], f"{result.pair.split('->')[1]}: {why}", number)
            for why in result.refusals:
                add(state["refused"], f"{result.pair}: {why}", 1)
            note(state["found"], result, arguments)
            state["cases"] += 1
            if result.skipped:
                add(state["skipped"], f"{result.pair.split('->')[0]}: {cases.alike(result.skipped)}", 1)
        state["next"] += 1
    save(arguments.state, state)


def add(counts, key, number):
    counts[key] = counts.get(key, 0) + number


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", required=True, help="the program to test")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--cases", type=int, default=10**9, help="stop after this many cases")
    parser.add_argument("--seconds", type=float, default=10**9, help="stop after this time")
    parser.add_argument("--domain", action="append", choices=list(cases.DOMAINS), help="records or models")
    parser.add_argument("--only", default="", help="only pairs whose name, as in parquet/duckdb->csv, contains this text")
    parser.add_argument("--case", help="run one case, DOMAIN:SEED, and keep its files")
    parser.add_argument("--state", type=Path, help="a JSON file to save the state in, and to continue from")
    return parser.parse_args()


def run(arguments, domain, seed, folder):
    """Runs one case in a folder, which is removed unless the caller passed it."""
    made = folder or tempfile.mkdtemp(prefix="ferry-differential-")
    try:
        return cases.run(arguments.ferry, domain, seed, random.Random(f"{domain}:{seed}"), Path(made), arguments.only)
    finally:
        if not folder:
            shutil.rmtree(made, ignore_errors=True)


def one(arguments):
    domain, seed = arguments.case.split(":")
    folder = tempfile.mkdtemp(prefix=f"{domain}-{seed}-")
    result = run(arguments, domain, int(seed), folder)
    print(f"{result.pair}\n{result.command}")
    for why in [f"skipped: {result.skipped}"] * bool(result.skipped) + [f"refused: {why}" for why in result.refusals]:
        print(why)
    for why, times in result.explained.items():
        print(f"explained: {times} x {why}")
    for difference in result.differences:
        print(f"{difference.kind}\n    {difference.what}")
    return 1 if result.differences else 0


def note(found, result, arguments):
    """Prints the first difference of each kind, and counts the differences of each kind."""
    source, target = result.pair.split("->")
    for difference in result.differences:
        key = f"{source}: {difference.kind}"
        if key not in found:
            again = f"{sys.executable} {Path(__file__).parent} --ferry {arguments.ferry} --case {result.name}"
            found[key] = {"times": 0, "targets": {}, "what": difference.what, "again": again}
            print(f"\n{key} (->{target})\n    {difference.what}\n    {again}", flush=True)
        found[key]["times"] += 1
        add(found[key]["targets"], target, 1)


def save(path, state):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(state, indent=1))
    partial.replace(path)


def report(state):
    print("\nvalues compared, by pair and type")
    pairs: dict[str, Counter] = {}
    for key, number in state["counts"].items():
        pair, kind = key.split(" ", 1)
        pairs.setdefault(pair, Counter())[kind] += number
    for pair, kinds in sorted(pairs.items()):
        print(f"  {pair:32} {sum(kinds.values()):>9}  " + ", ".join(f"{kind} {number}" for kind, number in kinds.most_common(12)))
    listed(state["explained"], "differences explained by a loss")
    listed(state["refused"], "correctly refused")
    listed(state["skipped"], "not written or read by the library itself")
    print(f"\nseeds left out because the process ended: {state['crashes'] or 'none'}")
    print(f"\nunexplained differences: {len(state['found'])} kinds in {state['cases']} cases; the next seed is {state['next']}")
    for key, entry in sorted(state["found"].items()):
        print(f"  {entry['times']:>5}  {key} (->{', '.join(entry['targets'])})\n           {entry['again']}")


def listed(counts, title):
    print(f"\n{title}: {sum(counts.values())}")
    for why, times in sorted(counts.items(), key=lambda item: -item[1])[:40]:
        print(f"  {times:>6}  {why}")


if __name__ == "__main__":
    main()
