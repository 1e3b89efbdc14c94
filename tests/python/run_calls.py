"""Loads the files of make_calls.py with Python's own pickle, which executes all their calls.

Prints the markers that did not appear. The list is empty if all files make their calls.

    run_calls.py CASES.json
"""

import copyreg
import io
import json
import os
import pickle
import sys
import warnings
import zipfile

import torch

import calls

warnings.filterwarnings("ignore")


class Unpickler(pickle.Unpickler):
    """Finds classes as torch.load does. For a class of a TorchScript program, any class may be returned."""

    def find_class(self, module, name):
        return type(name, (), {}) if module.startswith("__torch__") else super().find_class(module, name)

    def persistent_load(self, pid):
        return torch.zeros(6, dtype=pid[1].dtype).storage()


def load(kind, path, *place):
    if kind == "torch":
        return torch.load(path, weights_only=False)
    if kind == "pickle":
        with open(path, "rb") as file:
            return Unpickler(file).load()
    if kind == "slice":
        with open(path, "rb") as file:
            file.seek(place[0])
            return torch.load(io.BytesIO(file.read(place[1])), weights_only=False)
    content = io.BytesIO(zipfile.ZipFile(path).read(*place))
    return torch.load(content, weights_only=False) if kind == "nested" else Unpickler(content).load()


def main():
    copyreg.add_extension("posix", "system", calls.EXTENSION)
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    problems = []
    for case in cases:
        for place in case["loads"]:
            try:
                load(*place)
            except Exception as error:
                # Some calls end the loading with an error, but their markers still count.
                problems += [] if case["refused"] else [f"{place}: {error!r}"]
        problems += [marker for marker in case["markers"] if not os.path.exists(marker)]
    print(json.dumps(problems))


if __name__ == "__main__":
    main()
