"""Records as Arrow streams, in every library that accepts them."""

import gc
import pickle

import pyarrow
import pyarrow.parquet
import pytest
from conftest import FIXTURES

import tensorferry


def test_all_of_them_take_it(rows):
    import duckdb
    import pandas
    import polars

    path, table = rows
    scan = tensorferry.scan(path)
    assert scan.schema["id"] == "int64" and scan.known_records == 10_000 and scan.format == "parquet"
    assert scan.to_pyarrow().read_all().equals(table)
    # Each use starts a new stream.
    assert pyarrow.table(scan).equals(table)
    assert polars.DataFrame(scan).to_arrow().num_rows == 10_000
    assert polars.DataFrame(scan)["id"].sum() == sum(range(10_000))
    assert pandas.DataFrame.from_arrow(scan)["score"].sum() == pytest.approx(sum(i / 7 for i in range(10_000)))
    found = duckdb.sql("select word, count(*) as n from scan group by word order by word").fetchall()
    assert len(found) == 13 and sum(n for _, n in found) == 10_000
    assert pyarrow.schema(scan).names == table.schema.names


def test_datasets_take_its_batches(rows, tmp_path):
    import datasets

    path, _ = rows

    def batches():
        for batch in tensorferry.scan(path).to_pyarrow():
            yield from batch.to_pylist()

    made = datasets.Dataset.from_generator(batches, cache_dir=str(tmp_path / "cache"))
    assert len(made) == 10_000 and made[3]["list"] == [3, 4]
    direct = datasets.Dataset(pyarrow.table(tensorferry.scan(path)))
    assert direct[9_999]["id"] == 9_999


def test_steps_and_columns(rows, tmp_path):
    path, table = rows
    scan = tensorferry.scan(path, steps=["filter:id<100", "take:7"], columns=["word", "id"])
    assert list(scan.schema) == ["word", "id"] and scan.splits == 1
    read = pyarrow.table(scan)
    assert read.column_names == ["word", "id"] and read["word"][3].as_py() == "w3" and read["id"].to_pylist() == list(range(7))
    assert list(pickle.loads(pickle.dumps(scan)).schema) == ["word", "id"]
    # A nested column appears where it was requested, and a column that was requested twice appears once.
    nested = pyarrow.table({"a": [1, 2], "s": [{"x": 1, "y": 2}] * 2, "s.x": [8, 9]})
    pyarrow.parquet.write_table(nested, tmp_path / "nested.parquet")
    read = pyarrow.table(tensorferry.scan(tmp_path / "nested.parquet", columns=["s.x", "s.y", "a", "a"]))
    assert read.column_names == ["s.x", "s", "a"] and read["s"].to_pylist() == [{"y": 2}] * 2
    # pandas writes column names with spaces and quotes.
    spaced = pyarrow.table({"first name": ["a"], "b": [1], '"': [2]})
    pyarrow.parquet.write_table(spaced, tmp_path / "spaced.parquet")
    assert pyarrow.table(tensorferry.scan(tmp_path / "spaced.parquet", columns=["b", "first name"])).column_names == [
        "b", "first name",
    ]  # fmt: skip
    with pytest.raises(tensorferry.UsageError, match="quote"):
        tensorferry.scan(tmp_path / "spaced.parquet", columns=['a" b'])
    for wrong in ({"columns": ["absent"]}, {"steps": ["cast:bf16"]}, {"columns": []}, {"steps": ["repeat"]}):
        with pytest.raises(tensorferry.UsageError):
            tensorferry.scan(path, **wrong)


def test_a_set_goes_by_a_glob_or_by_what_its_names_begin_with(rows, tmp_path):
    path, table = rows
    for number in range(3):
        tensorferry.write(table.slice(number * 100, 100), tmp_path / f"part-{number}.jsonl")
    for given in ("part-*.jsonl", "part-"):
        read = pyarrow.table(tensorferry.scan(tmp_path / given, columns=["id"]))
        assert sorted(read["id"].to_pylist()) == list(range(300))
    assert pyarrow.table(tensorferry.scan(tmp_path / "part-1.jsonl")).num_rows == 100


def test_splits_together_are_everything(rows):
    path, table = rows
    scan = tensorferry.scan(path)
    assert scan.splits >= 2
    parts = [pyarrow.table(scan.split(number)) for number in range(scan.splits)]
    assert pyarrow.concat_tables(parts).equals(table)
    with pytest.raises(IndexError):
        scan.split(scan.splits)


def test_whoever_stops_early_stops_the_reading(rows):
    path, _ = rows
    for _ in range(50):
        reader = tensorferry.scan(path).to_pyarrow()
        assert reader.read_next_batch().num_rows
        del reader
    tensorferry.scan(path).__arrow_c_stream__()
    gc.collect()
    import duckdb

    scan = tensorferry.scan(path)
    assert duckdb.sql("select id from scan limit 3").fetchall() == [(0,), (1,), (2,)]


def test_tfrecords(rows):
    path = FIXTURES / "tfrecord/example_plain/data.tfrecord"
    read = pyarrow.table(tensorferry.scan(path))
    assert read.num_rows == len(__import__("json").loads((path.parent / "expected.json").read_text())["records"])


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl", "out.tfrecord"])
def test_tables_are_written(rows, tmp_path, name):
    import pandas
    import polars

    path, table = rows
    plain = table.select(["id", "word"])
    for number, data in enumerate([plain, polars.from_arrow(plain), pandas.DataFrame({"id": plain["id"].to_pandas(), "word": plain["word"].to_pandas()}),
                                   tensorferry.scan(path, columns=["id", "word"]), plain.to_reader(max_chunksize=77)]):  # fmt: skip
        out = tmp_path / f"{number}{name}"
        report = tensorferry.write(data, out)
        assert report.records == 10_000 and report.losses is not None
        back = pyarrow.table(tensorferry.scan(out, columns=["id", "word"]))
        assert back["id"].to_pylist() == plain["id"].to_pylist()
        words = [word.decode() if isinstance(word, bytes) else word for word in back["word"].to_pylist()]
        assert words == plain["word"].to_pylist()


def test_writing_refuses_what_is_no_table(tmp_path, rows):
    _, table = rows
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        tensorferry.write([1, 2], tmp_path / "a.parquet")
    with pytest.raises(TypeError, match="not a stream of records"):
        tensorferry.write(table["id"], tmp_path / "a.parquet")
    with pytest.raises(tensorferry.UsageError):
        tensorferry.write(table, tmp_path / "a.safetensors")
    def fails():
        yield table.to_batches()[0]
        raise RuntimeError("the producer's own")
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, fails())
    with pytest.raises(tensorferry.Error, match="the producer's own"):
        tensorferry.write(reader, tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()


def test_dictionaries_stay_where_the_format_has_some(tmp_path):
    import pandas

    words = pandas.Categorical(["b", "a", None, "b"], categories=["a", "b"], ordered=True)
    frame = pandas.DataFrame({"c": words})
    tensorferry.write(frame, tmp_path / "a.arrow")
    assert pandas.read_feather(tmp_path / "a.arrow")["c"].cat.ordered
    table = pyarrow.table(
        {
            "d": pyarrow.array(["a", "b", "a", None]).dictionary_encode(),
            "n": pyarrow.array([1.5, None, 2.5, 1.5]).dictionary_encode(),
            "truth": pyarrow.array([True, None, False, True]).dictionary_encode(),
            "v": pyarrow.array(["x", None, "z", "long enough to be no inline view"], pyarrow.string_view()),
            "r": pyarrow.RunEndEncodedArray.from_arrays([2, 4], ["p", "q"]),
            "l": pyarrow.array([["x"], ["y", "x"], None, []], pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))),
        }
    )
    for name in ("a.parquet", "b.arrow", "a.jsonl"):
        assert not tensorferry.write(table, tmp_path / name).losses
        assert tensorferry.scan(tmp_path / name).to_pyarrow().read_all().to_pydict() == table.to_pydict(), name
    for name in ("a.tfrecord", "a.csv"):
        assert tensorferry.write(table, tmp_path / name).records == 4
    with pyarrow.ipc.open_file(tmp_path / "b.arrow") as back:
        assert back.schema.field("d").type == table.schema.field("d").type
        assert back.schema.field("l").type.value_type == pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        assert back.schema.field("v").type == back.schema.field("r").type == pyarrow.string()
    # Each batch has its own dictionary, and together they have more words than the keys can distinguish.
    narrow = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    words = [pyarrow.array([f"{letter}{n}" for n in range(100)]).dictionary_encode().cast(narrow) for letter in "ab"]
    table = pyarrow.table({"w": pyarrow.chunked_array(words)})
    for name in ("two.arrow", "two.arrows", "two.parquet"):
        tensorferry.write(table, tmp_path / name)
        assert tensorferry.scan(tmp_path / name).to_pyarrow().read_all()["w"].to_pylist() == table["w"].to_pylist()


def test_what_a_stream_raises_is_told(tmp_path, rows):
    path, table = rows

    def batches():
        yield table.to_batches()[0]
        raise ZeroDivisionError("of the producer")

    reader = pyarrow.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(tensorferry.UsageError, match="stream of records failed.*of the producer"):
        tensorferry.write(reader, tmp_path / "a.parquet")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n' * 3 + '{"a": \n')
    scan = tensorferry.scan(tmp_path / "bad.jsonl", infer=2)
    with pytest.raises(tensorferry.MalformedError) as caught:
        tensorferry.write(scan, tmp_path / "a.parquet")
    assert caught.value.file.endswith("bad.jsonl") and caught.value.offset == 27
    # The earlier error of another stream is not reported.
    with pytest.raises(tensorferry.UsageError, match="does not determine its format"):
        tensorferry.write(scan, tmp_path / "a.unheard_of")
    assert not (tmp_path / "a.parquet").exists()
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())
    tensorferry.write(reader, tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="no records"):
        tensorferry.write(reader, tmp_path / "b.parquet")


def test_dictionaries_and_views_are_written_as_what_they_stand_for(tmp_path):
    table = pyarrow.table(
        {
            "d": pyarrow.array(["a", "b", "a", None]).dictionary_encode(),
            "v": pyarrow.array(["x", None, "z", "long enough to be no inline view"], pyarrow.string_view()),
        }
    )
    tensorferry.write(table, tmp_path / "a.parquet")
    back = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert back.to_pydict() == table.to_pydict()
