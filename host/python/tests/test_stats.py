"""Statistics of an opened model equal those of numpy."""

import numpy
import pytest

import tensorferry


@pytest.fixture
def path(tmp_path):
    numbers = numpy.random.default_rng(1)
    arrays = {
        "layers.0.weight": numbers.standard_normal((64, 33)).astype(numpy.float32),
        "layers.1.weight": (numbers.standard_normal((64, 33)) * 1e-3 + 1e6),
        "layers.1.bias": numpy.array([1, numpy.nan, numpy.inf, -numpy.inf, 0, 1e-7], dtype=numpy.float16),
        "ids": numpy.array([-(2**63), 2**63 - 1, 0, 0], dtype=numpy.int64),
        "huge": numpy.array([1e308, -1e308, 1e308, 1e308]),
    }
    tensorferry.save(arrays, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors", arrays


def test_they_are_those_of_numpy(path):
    path, arrays = path
    with tensorferry.open(path) as model:
        found = model.stats(histogram=True)
    assert list(found) == list(tensorferry.open(path))
    for name, array in arrays.items():
        stats, finite = found[name], array[numpy.isfinite(array)]
        assert (stats.count, stats.finite) == (array.size, finite.size)
        assert (stats.min, stats.max) == (finite.min(), finite.max())
        assert stats.zeros == numpy.count_nonzero(array == 0)
        assert (stats.nan, stats.posinf, stats.neginf) == (
            numpy.isnan(array).sum(), numpy.isposinf(array).sum(), numpy.isneginf(array).sum(),
        )
        if name == "huge":
            continue
        wide = finite.astype(numpy.float64)
        assert stats.mean == pytest.approx(wide.mean(), rel=1e-6, abs=1e-12)
        assert stats.std == pytest.approx(wide.std(), rel=1e-6)
        binned = finite.astype(numpy.float64) if array.dtype == numpy.float16 else finite
        counts, edges = numpy.histogram(binned, bins=64)
        assert stats.histogram.counts == counts.tolist()
        assert stats.histogram.edges == edges.tolist()
    assert found["layers.1.bias"].subnormals == 1
    assert isinstance(found["ids"].min, int)
    assert found["huge"].std == numpy.inf
    assert found["huge"].problem is None


def test_a_glob_chooses(path):
    with tensorferry.open(path[0]) as model:
        assert sorted(model.stats("layers.*.weight")) == ["layers.0.weight", "layers.1.weight"]
        assert model.stats("ids")["ids"].histogram is None
        with pytest.raises(tensorferry.UsageError, match="no tensor name matches"):
            model.stats("nothing*")
    with pytest.raises(tensorferry.Error):
        model.stats()
