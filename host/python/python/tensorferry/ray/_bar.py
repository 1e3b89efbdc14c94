"""The progress bar of a plan, across all nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def bar(progress: object, jobs: int) -> tuple[Callable[[dict[str, Any]], object], Callable[[], None]]:
    """Returns a function to call with each event, and a function that ends the bar.

    Args:
        progress: A function that is called with each event, or whether to show a bar.
        jobs: The number of jobs.
    """
    if callable(progress):
        return progress, lambda: None
    if not progress:
        return lambda event: None, lambda: None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return _Line(jobs).show, lambda: None
    shown = tqdm(total=jobs, unit="job", file=sys.stderr)

    def show(event: dict[str, Any]) -> None:
        # The count can decrease, because the jobs of a lost worker run again.
        shown.n = min(event["jobs_ended"], jobs)
        shown.set_postfix_str(_beside(event), refresh=False)
        shown.update(0)
        if event["event"] == "note":
            shown.write(f"note: {event['message']}", file=sys.stderr)

    def end() -> None:
        shown.refresh()
        shown.close()

    return show, end


class _Line:
    """A progress line on the terminal, used if tqdm is not installed."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def show(self, event: dict[str, Any]) -> None:
        if sys.stderr.isatty():
            end = "\n" if event["pieces_left"] == 0 else ""
            text = f"\r{event['jobs_ended']} of {self._jobs} jobs, {_beside(event)} "
            print(text, end=end, file=sys.stderr, flush=True)


def _beside(event: dict[str, Any]) -> str:
    failed = f", {event['jobs_failed']} failed" if event["jobs_failed"] else ""
    return f"{event['bytes_written'] / 1e6:.0f} MB, {event['workers']} workers{failed}"
