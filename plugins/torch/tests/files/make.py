"""Creates the files in this folder with PyTorch and records their content in expected.json.

The tar archive is written by hand in the layout of torch 0.1, because current versions of torch cannot
write it. This script checks that `torch.load` reads it.

    python make.py FOLDER
"""

import collections
import hashlib
import io
import json
import pathlib
import pickle
import struct
import sys
import tarfile
import warnings

import torch

warnings.filterwarnings("ignore")
DTYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.uint8: "U8", torch.uint16: "U16", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
}


def describe(tensors):
    expected = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().resolve_conj().contiguous()
        content = bytes(tensor.clone().untyped_storage())
        expected[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return expected


def make_tar(path):
    base = torch.arange(12, dtype=torch.float32)
    state = collections.OrderedDict()
    state["a.weight"] = base.view(3, 4)
    state["a.turned"] = base.view(3, 4).t()
    state["a.tied"] = state["a.weight"]
    state["part"] = base[2:6]
    state["long"] = torch.arange(5)
    state["byte"] = torch.tensor([1, 2, 3], dtype=torch.uint8)
    checkpoint = {"epoch": 3, "state": state, "rates": [0.1, None, True]}
    keys = {"a.weight": 10, "a.turned": 11, "a.tied": 10, "part": 12, "long": 13, "byte": 14}
    by_tensor = {id(tensor): keys[name] for name, tensor in state.items()}
    storages = [(1, torch.FloatStorage, base), (2, torch.LongStorage, state["long"]),
                (3, torch.ByteStorage, state["byte"])]
    views = [(4, 1, 2, 4)]
    tensors = [(10, 1, "a.weight", 0), (11, 1, "a.turned", 0), (12, 4, "part", 0), (13, 2, "long", 0),
               (14, 3, "byte", 0)]

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return str(by_tensor[id(value)]) if torch.is_tensor(value) else None

    def dump(value, file):
        pickle.dump(value, file, protocol=2)

    def write_storages(file):
        dump(len(storages), file)
        for key, kind, tensor in storages:
            dump((key, "cpu", kind), file)
            content = bytes(tensor.untyped_storage())
            file.write(struct.pack("<q", len(content) // tensor.element_size()) + content)
        dump(views, file)

    def write_tensors(file):
        dump(len(tensors), file)
        for key, storage, name, offset in tensors:
            tensor = state[name]
            dump((key, storage, torch.FloatTensor), file)
            rank = tensor.dim()
            numbers = [*tensor.size(), *tensor.stride(), offset]
            file.write(struct.pack("<i", rank) + bytes(4) + struct.pack(f"<{2 * rank + 1}q", *numbers))

    members = {
        "sys_info": lambda file: dump({"protocol_version": 1000, "little_endian": True}, file),
        "pickle": lambda file: Pickler(file, protocol=2).dump(checkpoint),
        "tensors": write_tensors,
        "storages": write_storages,
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, write in members.items():
            content = io.BytesIO()
            write(content)
            info = tarfile.TarInfo(name)
            info.size, info.mtime = content.tell(), 1484000000.25
            content.seek(0)
            archive.addfile(info, content)
    loaded = torch.load(path, weights_only=False)["state"]
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
    return {f"state.{name}": tensor for name, tensor in state.items()}


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("dropped", torch.ones(2), persistent=False)

    def forward(self, x):
        return self.linear(x) + self.dropped


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList([Part(), Part()])
        self.embedding = torch.nn.Embedding(4, 2)
        self.head = torch.nn.Linear(2, 4, bias=False)
        self.head.weight = self.embedding.weight
        self.parameters_ = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(n)) for n in (1, 2)])
        self.small = torch.nn.Parameter(torch.ones(3, dtype=torch.float16))
        self.tensors = [torch.zeros(1), torch.ones(2)]
        self.by_name = {"a": torch.full((1,), 5.0)}

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.head(x) + torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.tensors[0] + self.by_name["a"]


def make_script(path):
    module = Model().eval()
    scripted = torch.jit.script(module)
    scripted.save(path, _extra_files={"note.txt": "hello"})
    return dict(torch.jit.load(path).state_dict())


def make_trace(path):
    traced = torch.jit.trace(Model().eval(), torch.ones(1, 2))
    traced.save(path)
    loaded = torch.jit.load(path)
    constants = loaded.code_with_constants[1].const_mapping
    # The code names the constants of a trace c0, c1, ...
    numbered = {f"constants.{name[1:]}": tensor for name, tensor in constants.items()}
    return {**loaded.state_dict(), **numbered}


class Exported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 3)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight
        self.turned = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4).t())
        base = torch.arange(10.0)
        self.register_buffer("first", base[2:5])
        self.register_buffer("second", base[4:8])
        self.register_buffer("scalar", torch.tensor(5.0))
        self.register_buffer("brain", torch.ones(3, dtype=torch.bfloat16))
        self.register_buffer("eight", torch.ones(3).to(torch.float8_e4m3fn))
        self.register_buffer("short", torch.arange(3).to(torch.uint16))
        self.register_buffer("dropped", torch.ones(2), persistent=False)
        self.empty = torch.nn.Parameter(torch.ones(0, 3))
        self.plain = torch.full((4,), 3.0)

    def forward(self, x):
        x = self.head(self.embedding(x)) + self.dropped.sum() + self.plain
        return x + (self.turned.sum() + self.first.sum() + self.second.sum() + self.scalar + self.empty.sum())


def make_export(path):
    torch.export.save(torch.export.export(Exported().eval(), (torch.tensor([0, 1]),)), path)
    loaded = torch.export.load(path)
    return {**loaded.state_dict, **loaded.constants}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(0)
    makers = {"tar.pt": make_tar, "script.pt": make_script, "trace.pt": make_trace, "export.pt2": make_export}
    expected = {name: describe(make(str(folder / name))) for name, make in makers.items()}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
