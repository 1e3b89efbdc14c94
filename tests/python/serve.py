"""Runs scripts for the tests, each in a fork of a process that has already imported a framework.

    serve.py NAME MODULE...

Listens on the abstract socket NAME, and prints a line when it is ready. A request is a line of JSON, `{"script",
"arguments"}`. The response is `{"code", "stdout", "stderr"}`. The process ends when its standard input closes.
"""

import atexit
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import traceback


def run(script, arguments):
    """Runs a script as the main program, and returns its exit code."""
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def answer(connection):
    request = json.loads(connection.makefile().readline())
    streams = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), number)
    code = run(request["script"], request["arguments"])
    texts = [os.pread(stream.fileno(), os.fstat(stream.fileno()).st_size, 0).decode() for stream in streams]
    connection.sendall(json.dumps({"code": code, "stdout": texts[0], "stderr": texts[1]}).encode())


def main(name, modules):
    for module in modules:
        importlib.import_module(module)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name)
    listener.listen()
    print("ready", flush=True)
    # The child processes send the responses, so the parent does not wait for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                answer(connection)
            finally:
                os._exit(0)
        connection.close()


main(sys.argv[1], sys.argv[2:])
