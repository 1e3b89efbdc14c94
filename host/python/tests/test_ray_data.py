"""Records as Ray datasets, compared with a scan of the same files in one process."""

import os
import pathlib

import pyarrow
import pyarrow.parquet
import pytest
import ray
import ray.data
from conftest import FIXTURES

import tensorferry
import tensorferry.ray
from tensorferry.ray import _read, _write

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    yield
    ray.shutdown()


def table_of(data):
    """Returns all blocks, and checks that each block has the schema of the dataset."""
    blocks = [block for block in ray.get(data.to_arrow_refs()) if block.num_rows]
    assert len({block.schema.remove_metadata() for block in blocks}) <= 1, [block.schema for block in blocks]
    return pyarrow.concat_tables(blocks).replace_schema_metadata(None) if blocks else None


def same(path, data=None, **options):
    """Checks that a dataset equals a scan of the same path, and returns the table."""
    local = pyarrow.table(tensorferry.scan(path, **options)).replace_schema_metadata(None)
    data = tensorferry.ray.read(path, **options) if data is None else data
    found = table_of(data)
    assert found.schema == local.schema
    # Tables with NaN are compared as text, because NaN does not equal itself.
    assert found.equals(local) or repr(found.to_pylist()) == repr(local.to_pylist())
    assert data.schema().base_schema.remove_metadata() == local.schema
    return found


def rows_of(count, first=0):
    numbers = range(first, first + count)
    return pyarrow.table(
        {
            "id": pyarrow.array(numbers, pyarrow.int64()),
            "score": pyarrow.array([n / 7 for n in numbers], pyarrow.float32()),
            "word": [f"w{n % 13}".encode() for n in numbers],
            "list": [[n, n + 1] for n in numbers],
        }
    )


@pytest.fixture
def files(tmp_path):
    """A dataset of 6 files in each format that can store rows in several files."""
    for ending in ("tfrecord", "jsonl", "parquet", "csv", "arrow"):
        (tmp_path / ending).mkdir()
        for number in range(6):
            table = rows_of(500, number * 500)
            if ending == "csv":
                table = table.drop_columns(["list"])
            tensorferry.write(table, tmp_path / f"{ending}/part-{number:05}-of-00006.{ending}")
    return tmp_path


@pytest.mark.parametrize("ending", ["tfrecord", "jsonl", "parquet", "csv", "arrow"])
def test_a_folder_of_files(files, ending):
    data = tensorferry.ray.read(files / ending, override_num_blocks=3)
    assert same(files / ending, data).num_rows == 3000
    assert data.count() == 3000
    # The dataset has several tasks, each with its own files.
    source = source_of(files / ending)
    assert [len(task.metadata.input_files) for task in source.get_read_tasks(3)] == [2, 2, 2]
    assert same(files / ending, part=None, columns=["word", "id"]).column_names == ["word", "id"]


def source_of(path, steps=(), columns=None, **options):
    asked, texts, columns = tensorferry._api._records(os.path.abspath(path), steps, columns, None, None, options)
    return _read.TensorferryDatasource(_read._Request(asked, texts, columns, bool(steps), {"threads": 1}))


@pytest.mark.parametrize(
    "path",
    [
        "tfrecord/example_plain/data.tfrecord", "tfrecord/sequence_example/data.tfrecord",
        "tfrecord/example_ragged_missing/data.tfrecord", "tfrecord/sharded", "mds/sharded_hashed", "mds/zstd",
        "arrow/file_nested", "arrow/stream_flat_types",
    ],
)  # fmt: skip
def test_fixtures(path):
    path = FIXTURES / path
    if path.is_dir() and path.parent.name == "arrow":
        (path,) = [file for file in path.iterdir() if file.suffix != ".json"]
    assert same(path).num_rows > 0


def test_webdataset_and_npz(tmp_path):
    import numpy

    members = pyarrow.table({"__key__": [f"{n:04}" for n in range(40)], "txt": [f"text {n}" for n in range(40)]})
    for number in range(2):
        tensorferry.write(members.slice(number * 20, 20), tmp_path / f"set-{number:06}.tar", to="webdataset")
    assert same(tmp_path).num_rows == 40
    numpy.savez(tmp_path / "rows.npz", a=numpy.arange(12.0).reshape(6, 2), b=numpy.arange(6))
    try:
        tensorferry.scan(tmp_path / "rows.npz")
    except tensorferry.UnsupportedError:
        # Tensors are not records. `tensorferry.ray.read` rejects a file of tensors with the same
        # message as `tensorferry.scan`.
        with pytest.raises(tensorferry.UnsupportedError):
            tensorferry.ray.read(tmp_path / "rows.npz")
    else:
        assert same(tmp_path / "rows.npz").num_rows == 6


def test_one_value_here_and_several_there(tmp_path):
    tensorferry.write(pyarrow.table({"id": [1, 2], "a": [5, 6]}), tmp_path / "x-0.tfrecord")
    tensorferry.write(pyarrow.table({"id": [3, 4], "a": [[7, 8], [9]]}), tmp_path / "x-1.tfrecord")
    read = same(tmp_path, tensorferry.ray.read(tmp_path, override_num_blocks=2))
    assert read["a"].to_pylist() == [[5], [6], [7, 8], [9]]


def test_files_of_different_features(tmp_path):
    tensorferry.write(pyarrow.table({"id": [1, 2], "a": [5.0, 6.0]}), tmp_path / "x-0.tfrecord")
    tensorferry.write(pyarrow.table({"id": [3, 4], "b": [b"x", b"y"]}), tmp_path / "x-1.tfrecord")
    read = same(tmp_path, tensorferry.ray.read(tmp_path, override_num_blocks=2))
    assert read["a"].to_pylist() == [5.0, 6.0, None, None] and read["b"].to_pylist() == [None, None, b"x", b"y"]


def test_webdatasets_of_different_members(tmp_path):
    # The WebDataset reader has no option that sets the columns. Each task therefore opens all files
    # to find the same columns.
    for number, member in enumerate(["txt", "json"]):
        table = pyarrow.table({"__key__": [f"{number}-{n}" for n in range(5)], member: ["1"] * 5})
        tensorferry.write(table, tmp_path / f"set-{number:06}.tar", to="webdataset")
    data = tensorferry.ray.read(tmp_path, override_num_blocks=2)
    assert set(same(tmp_path, data).column_names) == {"__key__", "txt", "json"}


def test_mixed_kinds_are_an_error_that_names_the_record(tmp_path):
    tensorferry.write(pyarrow.table({"id": [1, 2], "a": [5, 6]}), tmp_path / "x-0.tfrecord")
    tensorferry.write(pyarrow.table({"id": [3, 4], "a": [5.0, 6.0]}), tmp_path / "x-1.tfrecord")
    with pytest.raises(tensorferry.Error) as local:
        tensorferry.scan(tmp_path)
    with pytest.raises(tensorferry.Error) as raised:
        tensorferry.ray.read(tmp_path)
    assert type(raised.value) is type(local.value) and str(raised.value) == str(local.value)
    assert "record" in str(raised.value)
    # If the types are inferred from the first records, the task finds the record that contradicts
    # them.
    data = tensorferry.ray.read(tmp_path, infer=2, override_num_blocks=1)
    with pytest.raises(tensorferry.Error, match="record") as raised:
        data.materialize()
    assert isinstance(raised.value, tensorferry.MalformedError | tensorferry.UnsupportedError)


def test_damage_is_the_same_error_in_a_task(tmp_path):
    tensorferry.write(rows_of(100), tmp_path / "a.tfrecord")
    data = tensorferry.ray.read(tmp_path / "a.tfrecord")
    bytes = bytearray((tmp_path / "a.tfrecord").read_bytes())
    bytes[len(bytes) // 2] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(bytes)
    with pytest.raises(tensorferry.MalformedError, match="checksum"):
        data.materialize()
    # A file that has grown is also an error in the task.
    (tmp_path / "a.tfrecord").write_bytes(bytes * 2)
    with pytest.raises(tensorferry.Error):
        data.materialize()


def test_steps_run_where_the_records_are_read(files):
    path = files / "tfrecord"
    data = tensorferry.ray.read(path, steps=["filter:id>=1200"], columns=["id"], override_num_blocks=3)
    assert same(path, data, steps=["filter:id>=1200"], columns=["id"]).num_rows == 1800
    assert len(source_of(path, steps=["filter:id>=1200"]).get_read_tasks(3)) == 3
    # Which records are the first seven depends on all files.
    assert len(source_of(path, steps=["take:7"]).get_read_tasks(3)) == 1
    assert same(path, steps=["skip:1", "take:7"])["id"].to_pylist() == list(range(1, 8))
    with pytest.raises(tensorferry.UsageError):
        tensorferry.ray.read(path, columns=["absent"])


def test_a_large_file_is_read_by_several_tasks(tmp_path):
    # Files larger than 64 MiB are divided.
    table = pyarrow.table({"id": range(70), "bytes": [bytes([n]) * (1 << 20) for n in range(70)]})
    tensorferry.write(table, tmp_path / "a.tfrecord")
    tasks = source_of(tmp_path / "a.tfrecord").get_read_tasks(4)
    assert len(tasks) == 4 and all(len(task.metadata.input_files) == 1 for task in tasks)
    assert sum(task.metadata.num_rows for task in tasks) == 70
    assert same(tmp_path / "a.tfrecord", tensorferry.ray.read(tmp_path / "a.tfrecord", override_num_blocks=4)).num_rows == 70
    groups = [task.read_fn._group for task in tasks]
    assert [group.files for group in groups] == [["a.tfrecord"]] * 4


def test_an_input_without_records_has_columns(tmp_path):
    tensorferry.write(rows_of(0), tmp_path / "a.parquet")
    data = tensorferry.ray.read(tmp_path / "a.parquet")
    assert data.count() == 0 and data.schema().names == ["id", "score", "word", "list"]


def test_relative_paths_hold_in_other_processes(files, monkeypatch):
    monkeypatch.chdir(files)
    assert tensorferry.ray.read("jsonl").count() == 3000
    assert tensorferry.ray.read("jsonl/part-0000[0-2]*").count() == 1500


def names_in(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


@pytest.mark.parametrize("ending", ["parquet", "tfrecord", "jsonl"])
def test_written_and_read_again(tmp_path, ending):
    data = ray.data.from_arrow([rows_of(100, n * 100) for n in range(4)])
    report = tensorferry.ray.write(data, tmp_path / f"out/rows.{ending}")
    assert names_in(tmp_path) == ["out"]
    assert names_in(tmp_path / "out") == [f"rows-{n:05}-of-00004.{ending}" for n in range(4)]
    assert report.records == 400 and report.format == ending and len(report.files) == 4
    back = pyarrow.table(tensorferry.scan(tmp_path / "out"))
    assert back["id"].to_pylist() == list(range(400)) and back["list"].to_pylist()[399] == [399, 400]
    assert tensorferry.ray.read(tmp_path / "out").count() == 400


def test_files_of_a_data_set_have_one_schema_whatever_their_dictionaries(tmp_path):
    def table(count, keys):
        words = pyarrow.array([f"w{n}" for n in range(count)]).dictionary_encode()
        return pyarrow.table({"word": words.cast(pyarrow.dictionary(keys, pyarrow.string()))})

    tables = [table(100, pyarrow.int8()), table(300, pyarrow.int16())]
    for name, given in {"one": tables[:1] * 2, "several": tables}.items():
        parts = [tensorferry.ray.write(ray.data.from_arrow(part), tmp_path / name / f"{n}.parquet") for n, part in enumerate(given)]
        assert sum(part.records for part in parts) == sum(map(len, given))
        assert pyarrow.parquet.read_table(tmp_path / name)["word"].to_pylist() == sum((part["word"].to_pylist() for part in given), [])


def test_what_is_there_is_kept_replaced_or_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/README").write_text("another's")
    few, many = (ray.data.from_arrow([rows_of(10, n * 10) for n in range(count)]) for count in (2, 3))
    tensorferry.ray.write(few, tmp_path / "out", to="parquet")
    first = ["README", "part-00000-of-00002.parquet", "part-00001-of-00002.parquet"]
    assert names_in(tmp_path / "out") == first
    with pytest.raises(tensorferry.UsageError, match="overwrite"):
        tensorferry.ray.write(many, tmp_path / "out", to="parquet")
    assert tensorferry.ray.write(many, tmp_path / "out", to="parquet", mode="ignore").records == 0
    assert names_in(tmp_path / "out") == first
    tensorferry.ray.write(many, tmp_path / "out", to="parquet", mode="overwrite")
    assert names_in(tmp_path / "out") == ["README", *(f"part-{n:05}-of-00003.parquet" for n in range(3))]
    # Write another dataset into the same folder.
    tensorferry.ray.write(few, tmp_path / "out/test.jsonl", output_options={"nulls": False})
    assert len(names_in(tmp_path / "out")) == 6


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fails(table):
        if table["id"][0].as_py() >= 30:
            raise RuntimeError("the function's own")
        return table

    data = ray.data.from_arrow([rows_of(10, n * 10) for n in range(5)]).map_batches(fails, batch_format="pyarrow")
    with pytest.raises(Exception, match="the function's own"):
        tensorferry.ray.write(data, tmp_path / "out/rows.parquet")
    assert names_in(tmp_path) == []


def test_a_task_whose_process_dies_is_written_once(tmp_path):
    died = tmp_path / "died"

    def dies_once(table):
        if table["id"][0].as_py() == 20 and not died.exists():
            died.touch()
            os._exit(1)
        return table

    data = ray.data.from_arrow([rows_of(10, n * 10) for n in range(4)]).map_batches(dies_once, batch_format="pyarrow")
    tensorferry.ray.write(data, tmp_path / "out/rows.parquet")
    assert died.exists() and len(names_in(tmp_path / "out")) == 4
    assert sorted(pyarrow.table(tensorferry.scan(tmp_path / "out"))["id"].to_pylist()) == list(range(40))


class Context:
    def __init__(self, task_idx):
        self.task_idx = task_idx


class Result:
    def __init__(self, parts):
        self.write_returns = parts


def test_of_several_attempts_those_that_counted_are_chosen(tmp_path):
    place = _write._place(str(tmp_path / "out/rows.parquet"), None)
    sink = _write.TensorferryDatasink(place, [], False, False, {"threads": 1})
    sink.on_write_start(rows_of(0).schema)
    first, again = sink.write([rows_of(10)], Context(0)), sink.write([rows_of(10)], Context(0))
    second = sink.write([rows_of(5, 10)], Context(1))
    assert first.name != again.name
    # The output is not visible before all tasks have ended.
    assert not (tmp_path / "out").exists() and all(name.startswith(".") for name in names_in(tmp_path))
    sink.on_write_complete(Result([second, again, None]))
    assert names_in(tmp_path) == ["out"]
    assert names_in(tmp_path / "out") == ["rows-00000-of-00002.parquet", "rows-00001-of-00002.parquet"]
    # A late attempt may still write, because it does not know that the driver has finished.
    try:
        sink.write([rows_of(10)], Context(0))
    except tensorferry.Error:
        pass
    assert names_in(tmp_path / "out") == ["rows-00000-of-00002.parquet", "rows-00001-of-00002.parquet"]
    assert pyarrow.table(tensorferry.scan(tmp_path / "out"))["id"].to_pylist() == list(range(15))


def test_no_rows_are_one_file_with_columns(tmp_path):
    data = ray.data.from_arrow(rows_of(10)).filter(expr="id < 0")
    tensorferry.ray.write(data, tmp_path / "out/rows.parquet")
    assert names_in(tmp_path / "out") == ["rows-00000-of-00001.parquet"]
    assert pyarrow.parquet.read_schema(tmp_path / "out/rows-00000-of-00001.parquet").names == rows_of(0).column_names


def test_what_cannot_be_written_is_said_before(tmp_path):
    data = ray.data.range(3)
    for wrong in ({"path": "s3://bucket/rows.parquet"}, {"path": tmp_path / "rows.safetensors"}, {"path": tmp_path / "rows"},
                  {"path": tmp_path / "rows", "to": "mds"}, {"path": tmp_path / "a.parquet", "mode": "append"}):  # fmt: skip
        with pytest.raises(tensorferry.Error):
            tensorferry.ray.write(data, **wrong)
    assert names_in(tmp_path) == []


def test_shuffled_records_are_the_same_ones(files):
    data = tensorferry.ray.read(files / "tfrecord").random_shuffle(seed=1).repartition(2)
    tensorferry.ray.write(data, files / "shuffled/part.tfrecord")
    back = pyarrow.table(tensorferry.scan(files / "shuffled"))
    assert back.num_rows == 3000 and back["id"].to_pylist() != list(range(3000))
    ordered = back.sort_by("id")
    assert ordered.select(["id", "list"]).equals(rows_of(3000).select(["id", "list"]).cast(ordered.select(["id", "list"]).schema))
