"""One case: a library writes a random file, ferry converts it, and a different library reads the output."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

import columns
import compare
import ferry
import models as tensor_formats
import tables


@dataclass
class Result:
    name: str
    pair: str
    command: str = ""
    counts: Counter = field(default_factory=Counter)
    differences: list[compare.Difference] = field(default_factory=list)
    explained: Counter = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)
    # The reason why the library could not write or read the case.
    skipped: str = ""


def run(binary, domain, seed, rng, folder, only) -> Result:
    writers, targets = DOMAINS[domain].pairs
    source, library, write = writers[seed % len(writers)]
    target = targets[(seed % len(writers) + seed // len(writers)) % len(targets)]
    result = Result(f"{domain}:{seed}", f"{source}/{library}->{target}")
    if only in result.pair:
        DOMAINS[domain].run(binary, rng, folder, result, (source, write, target))
    return result


def quietly(result, function, *arguments):
    """Returns a library's result. A failure of the library is not a fault in ferry."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # polars panics with an exception of its own
        result.skipped = f"{type(error).__name__}: {error}"[:300]
        return None


def convert(binary, rng, result, source, output, options):
    """Converts a file. A refusal is recorded, and a failed verification is reported as a separate difference."""
    verify = ["--verify"] if rng.random() < 0.5 else []
    outcome = ferry.run(binary, "convert", source, output, *options, *verify)
    result.command = outcome.command
    if outcome.code == 4:
        result.differences.append(compare.Difference("--verify fails", str(outcome.error.get("message"))))
        outcome = ferry.run(binary, "convert", source, output, "--force", *options)
    if fault := outcome.fault():
        result.differences.append(compare.Difference(alike(fault), outcome.stderr[-400:] or str(outcome.error)))
    elif outcome.code:
        result.refusals.append(alike(f"{outcome.error.get('kind')}: {outcome.error.get('message')}"))
    return outcome


def explain(result, outcome, differences):
    """Keeps the differences that no loss explains, and counts the explained ones by the loss's
    reason."""
    for difference in differences:
        if reason := outcome.explanation(difference.names, difference.losses):
            result.explained[f"{alike(difference.kind)}: {alike(reason)}"] += 1
        else:
            result.differences.append(difference)


def alike(message):
    """Returns a message without names, paths and numbers."""
    message = re.sub(r"/tmp/\S+", "…", message)
    return re.sub(r"\d+", "N", re.sub(r'"(\\.|[^"\\])*"', '"…"', message))[:160]


def records(binary, rng, folder, result, pair):
    source, write, target = pair
    reader, other = tables.FORMATS[source], tables.FORMATS[target]
    path, output = str(folder / f"in{rng.choice(reader.endings)}"), f"{folder}/out{other.endings[0]}"
    made = quietly(result, columns.table, rng, target == "webdataset")
    # An empty table is falsy.
    made = None if made is None else writable(result, write, made, path, rng)
    if made is None:
        return
    expected = quietly(result, reader.read, path)
    if expected is None:
        return
    if rng.random() < 0.1 and source in ("parquet", "arrow", "jsonl", "csv"):
        path, expected = several(result, write, reader, made, path, expected, rng)
    if expected is None:
        return
    result.skipped = ""
    outcome = convert(binary, rng, result, path, output, ["--to", target, "--allow-empty", *other.options])
    if outcome.code:
        return
    try:
        found = other.read(output)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        result.differences.append(compare.Difference(f"the output cannot be read: {alike(what)}", what[:600]))
        return
    explain(result, outcome, compare.tables(reader.form, other.form, expected, found, result.counts))


def several(result, write, reader, table, path, expected, rng):
    """Moves the file into a folder with a second file, whose columns are in a different order and
    have wider types."""
    first = Path(path)
    folder = first.parent / "folder"
    folder.mkdir()
    ending = first.name.removeprefix("in")
    first = first.rename(folder / f"0{ending}")
    names = rng.choice([table.column_names, table.column_names[::-1]])
    second = table.select(names)
    if rng.random() < 0.5:
        wide = [field.with_type(pa.large_string()) if field.type == pa.string() else field for field in second.schema]
        second = quietly(result, second.cast, pa.schema(wide)) or second
    file = str(folder / f"1{ending}")
    more = quietly(result, lambda: write(second, file, rng) or reader.read(file))
    if more is None or {c.name for c in more} != {c.name for c in expected}:
        return str(folder), None
    cells = {column.name: column.cells for column in more}
    return str(folder), [replace(column, cells=column.cells + cells[column.name]) for column in expected]


def writable(result, write, table, path, rng):
    """Writes a table, without the columns that the library cannot write."""
    state = rng.getstate()
    if quietly(result, lambda: write(table, path, rng) or True):
        return table
    for name in table.column_names:
        rng.setstate(state)
        if not quietly(result, lambda: write(table.select([name]), path, rng) or True) and table.num_columns > 1:
            table = table.drop_columns([name])
    rng.setstate(state)
    return table if quietly(result, lambda: write(table, path, rng) or True) else None


def models(binary, rng, folder, result, pair):
    source, write, target = pair
    reader, other = tensor_formats.FORMATS[source], tensor_formats.FORMATS[target]
    path = str(folder / f"in{rng.choice(reader.endings)}")
    output = f"{folder}/out{other.endings[0]}"
    if not quietly(result, lambda: write(path, rng) or True):
        return
    expected = quietly(result, reader.read, path)
    if not expected:
        return
    options = ["--to", target, "--part", ".", *reader.input_options, *other.output_options]
    outcome = convert(binary, rng, result, path, output, options)
    if outcome.code:
        return
    try:
        found = other.read(output)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        result.differences.append(compare.Difference(f"the output cannot be read: {alike(what)}", what[:600]))
        return
    explain(result, outcome, compare.models(target, expected, found, result.counts))


@dataclass(frozen=True)
class Domain:
    pairs: tuple
    run: object


DOMAINS = {
    "records": Domain((tables.WRITERS, list(tables.FORMATS)), records),
    "models": Domain((tensor_formats.WRITERS, tensor_formats.TARGETS), models),
}
