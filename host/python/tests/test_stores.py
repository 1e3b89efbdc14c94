"""URLs as inputs, served on this machine and also read from forked processes."""

import functools
import http.server
import multiprocessing
import threading

import numpy
import pytest
from conftest import FIXTURES

import tensorferry

FOLDER = FIXTURES / "safetensors/all_dtypes"


class Handler(http.server.SimpleHTTPRequestHandler):
    """An HTTP handler that serves byte ranges, which the standard library's handler does not support."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = FOLDER / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        data = path.read_bytes()
        asked = self.headers.get("Range", "")
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = (int(first), min(int(last) + 1, len(data))) if asked else (0, len(data))
        self.send_response(206 if asked else 200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(end - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[start:end])


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(FOLDER)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (name,) = [path.name for path in FOLDER.iterdir() if path.suffix == ".safetensors"]
    yield f"http://127.0.0.1:{server.server_port}/{name}", FOLDER / name
    server.shutdown()


def bytes_of(model):
    return {name: tensor.numpy().tobytes() for name, tensor in model.items()}


def read(path):
    with tensorferry.open(path) as model:
        return bytes_of(model)


def test_a_url_is_opened_as_a_path_is(url, tmp_path):
    url, path = url
    here = read(path)
    with tensorferry.open(url) as model:
        assert bytes_of(model) == here
        # A child process has its own connections, even for a model that its parent opened.
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(read, [url] * 4).get(60) == [here] * 4
        name = next(iter(model))
        assert numpy.array_equal(model[name].numpy(), tensorferry.open(path)[name].numpy())
    tensorferry.convert(url, tmp_path / "out.pt")
    assert tensorferry.diff(url, tmp_path / "out.pt").equal


def test_stores_are_told_how_they_are_reached(url):
    with pytest.raises(tensorferry.UsageError, match="parallel"):
        tensorferry.configure(stores={"paralel": 4})
    tensorferry.configure(stores={"parallel": 2, "s3.anonymous": True})
    try:
        assert read(url[0]) == read(url[1])
        with pytest.raises(tensorferry.NotFoundError):
            tensorferry.open(url[0] + ".missing")
    finally:
        tensorferry.configure()
