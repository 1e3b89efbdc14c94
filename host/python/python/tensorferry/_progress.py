"""Reports progress to a function of the caller, or shows a progress bar."""

from __future__ import annotations

import sys


def listener(progress: object):  # type: ignore[no-untyped-def]
    """Returns the progress callback for the engine, and a function that ends the display of progress.

    The callback is called with the bytes done, the total bytes, and `"read"`, `"copy"` or
    `"check"`.

    Args:
        progress: Such a callback, or whether to show a bar.
    """
    if not progress:
        return None, lambda: None
    if callable(progress):
        return progress, lambda: None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return _Line().show, lambda: None
    bar = tqdm(unit="B", unit_scale=True, leave=False)

    def show(done: int, of: int, stage: str) -> None:
        bar.total = of
        bar.set_description(stage, refresh=False)
        bar.n = done
        bar.refresh()

    return show, bar.close


class _Line:
    """A progress line on the terminal, used if tqdm is not installed."""

    def show(self, done: int, of: int, stage: str) -> None:
        if sys.stderr.isatty() and of:
            end = "\n" if done >= of else ""
            print(f"\r{stage} {100 * done // of}% of {of / 1e6:.0f} MB ", end=end, file=sys.stderr, flush=True)
