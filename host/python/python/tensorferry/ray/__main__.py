"""Runs the jobs of a manifest on a Ray cluster: `python3 -m tensorferry.ray MANIFEST`. Exit codes are those of `ferry run`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .._errors import Error

_CODES = {
    "usage": 2,
    "malformed": 3,
    "unsupported": 3,
    "limit": 3,
    "verification": 4,
    "transient": 75,
    "cancelled": 130,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tensorferry.ray", description=__doc__)
    parser.add_argument("manifest", help="a manifest as for `ferry run`, or the folder of a plan")
    parser.add_argument("--address", help="address of the cluster, from one of its nodes (default: as Ray finds it)")
    parser.add_argument("--plan", help="folder of the plan, shared by all nodes; created if it does not exist")
    parser.add_argument("--var", action="append", default=[], metavar="KEY=VALUE", help="a variable of the manifest")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="plan only the jobs with these names")
    parser.add_argument("--actors", type=int, help="number of actors (default: as many as the processors allow)")
    parser.add_argument("--cpus", type=float, default=1, help="processors and threads of each actor (default: 1)")
    parser.add_argument("--memory", type=int, help="bytes for each")
    parser.add_argument("--timeout", type=float, default=60, help="seconds within which an actor must answer (default: 60)")
    parser.add_argument("--piece-timeout", type=float, help="seconds within which a piece must make progress")
    parser.add_argument("--retries", type=int, default=3, help="retries after temporary failures (default: 3)")
    parser.add_argument("--quiet", action="store_true", help="show no bar")
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    given = parser.parse_args()
    wrong = [text for text in given.var if "=" not in text]
    if wrong:
        parser.error(f"--var takes KEY=VALUE, not {wrong[0]!r}")
    try:
        from ._run import listener_of_lines, run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "ray":
            raise
        print("error: this needs Ray: pip install 'tensorferry[ray]'", file=sys.stderr)
        return 5
    try:
        summary = run(
            given.manifest,
            plan=given.plan,
            address=given.address,
            only=given.only,
            variables=dict(text.split("=", 1) for text in given.var),
            actors=given.actors,
            num_cpus=int(given.cpus) if given.cpus == int(given.cpus) else given.cpus,
            memory=given.memory,
            progress=listener_of_lines() if given.json else not given.quiet,
            timeout=given.timeout,
            piece_timeout=given.piece_timeout,
            retries=given.retries,
        )
    except KeyboardInterrupt:
        print("error: interrupted: run the same command again to do the remaining jobs", file=sys.stderr)
        return 130
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return _CODES.get(error.kind, 5)
    except ConnectionError as error:
        token = "if it needs a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        print(f"error: cannot connect to a Ray cluster: {error} ({token})", file=sys.stderr)
        return 5
    if given.json:
        print(json.dumps({"event": "end", **summary.as_dict()}))
        return int(summary.exit_code)
    for note in summary.notes:
        print(f"note: {note}", file=sys.stderr)
    for failure in summary.failures[:10]:
        print(f"failed: {failure['name']}: {failure['message']}", file=sys.stderr)
    if len(summary.failures) > 10:
        print(f"failed: at least {len(summary.failures) - 10} others", file=sys.stderr)
    totals = ", ".join(f"{count} {word}" for word, count in summary.totals.items() if count)
    print(f"{totals or 'no jobs'} in {summary.seconds:.1f} s; plan: {summary.plan}")
    return int(summary.exit_code)


def end(code: int) -> None:
    """Ends this process without running Ray's exit handlers, which may wait for a frozen node."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main())
