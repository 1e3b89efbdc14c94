"""Writes checkpoints with calls next to valid tensors, in every container of torch and every pickle protocol.

    make_calls.py FOLDER

Prints the contents of each checkpoint. A case is `{"case", "input", "tensors", "calls": {NAME:
{"global", "is_object"}}, "under", "markers", "loads", "refused"}`. `loads` are its pickles for
run_calls.py, `markers` the files that loading them creates, and `under` the path of the calls in
the object, if the object contains them.
"""

import io
import json
import os
import pickle
import struct
import sys
import tarfile
import zipfile

import torch
from torch.distributed.checkpoint import filesystem, metadata

import facts
from calls import Call, Pickler, calls, needed, spelled, written

HUB = """
def entry(marker):
    open(marker, "w").close()

if "leave" in globals():
    entry(leave)
"""

WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.arange(4)}


class Maker:
    """Creates the cases of one protocol."""

    def __init__(self, folder, protocol):
        self.folder, self.protocol, self.cases = folder, protocol, []

    def case(self, container):
        return Case(self, f"{container}_{self.protocol}")

    def pickled(self, value, storages, legacy=False):
        file = io.BytesIO()
        Pickler(file, self.protocol, storages, legacy).dump(value)
        return file.getvalue()

    def saved(self, value, pickles=("data.pkl",), more=()):
        """Returns an archive as torch.save writes it. For several pickles, `value` has one value for each."""
        storages, file = {}, io.BytesIO()
        values = dict(zip(pickles, value if len(pickles) > 1 else [value]))
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in values.items():
                archive.writestr(f"m/{name}", self.pickled(value, storages))
            write_storages(archive, storages)
            for name, content in {"version": "3\n", "byteorder": "little", **dict(more)}.items():
                archive.writestr(f"m/{name}", content)
        return file.getvalue()


def write_storages(archive, storages):
    for key, storage in storages.values():
        archive.writestr(f"m/data/{key}", content(storage))


def content(storage):
    return bytes(storage.untyped())


class Case:
    def __init__(self, maker, name):
        self.maker, self.name, self.folder = maker, name, os.path.join(maker.folder, name)
        self.markers, self.loads, self.calls = [], [], {}
        os.makedirs(self.folder)

    def mark(self, name):
        self.markers.append(os.path.join(self.maker.folder, "markers", f"{self.name}.{name}"))
        return self.markers[-1]

    def armed(self, place="", storages=True):
        """Returns the calls, by name."""
        found = calls(lambda name: self.mark(place + name), self.maker.protocol, self.maker.folder, storages)
        for name, (_, called) in found.items():
            is_object = isinstance(called, type) and called.__module__ == "armed"
            self.calls[name] = {"global": spelled(called, self.maker.protocol), "is_object": is_object}
        return {name: value for name, (value, _) in found.items()}

    def hidden(self, place, value, storages=False):
        """Returns the value after calls whose results are dropped."""
        dropped = [part for call in self.armed(place, storages).values() for part in (call, pickle.POP)]
        return written(*dropped, value)

    def write(self, path, content, load=None):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        if load:
            self.loads.append([load, path])
        return path

    def done(self, input, tensors=WEIGHTS, under=None, refused=False):
        self.maker.cases.append({
            "case": self.name, "input": os.path.join(self.folder, input), "tensors": facts.facts(tensors)["tensors"],
            "calls": self.calls, "under": under, "markers": self.markers, "loads": self.loads, "refused": refused,
        })


def archive(maker):
    case = maker.case("zip")
    case.write("model.pt", maker.saved({**WEIGHTS, "x": case.armed()}), "torch")
    case.done("model.pt", under="x")


def stream(maker):
    """Writes a checkpoint with calls in the object, and in the pickles around it."""
    case, storages = maker.case("legacy"), {}
    parts = [0x1950A86A20F9469CFC6C, 1001, case.hidden("system.", {"little_endian": True})]
    pickles = [maker.pickled(part, {}) for part in parts]
    pickles.append(maker.pickled({**WEIGHTS, "x": case.armed()}, storages, legacy=True))
    pickles.append(maker.pickled(case.hidden("keys.", [str(key) for key, _ in storages.values()]), {}))
    data = [struct.pack("<q", storage._size()) + content(storage) for _, storage in storages.values()]
    case.write("model.pt", b"".join(pickles + data), "torch")
    case.done("model.pt", under="x")


def tar(maker):
    """Writes a checkpoint with calls in each of its members."""
    case = maker.case("tar")

    def tensor(key):
        return written(str(key), pickle.BINPERSID)

    object = {**{name: tensor(10 + at) for at, name in enumerate(WEIGHTS)}, "x": case.armed(storages=False)}
    tensors, storages = maker.pickled(len(WEIGHTS), {}), maker.pickled(len(WEIGHTS), {})
    for at, tensor in enumerate(WEIGHTS.values()):
        kind = getattr(torch, tensor.storage()._pickle_storage_type())
        storages += maker.pickled(written(case_call(case, f"storage{at}"), pickle.POP, (at, "cpu", kind)), {})
        storages += struct.pack("<q", tensor.numel()) + content(tensor.storage())
        numbers = [*tensor.size(), *tensor.stride(), 0]
        tensors += maker.pickled((10 + at, at, torch.FloatTensor), {})
        tensors += struct.pack(f"<i4x{len(numbers)}q", tensor.dim(), *numbers)
    members = {"pickle": maker.pickled(object, {}), "tensors": tensors, "storages": storages + maker.pickled([], {})}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, member in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(member)
            packed.addfile(info, io.BytesIO(member))
    case.write("model.pt", file.getvalue(), "torch")
    case.done("model.pt", under="x")


def case_call(case, name):
    return Call(exec, f"open({case.mark(name)!r}, 'w').close()")


def script(maker):
    case = maker.case("script")

    def module(attributes):
        return written(b"c__torch__\nM\n" + pickle.EMPTY_TUPLE + pickle.NEWOBJ, attributes, pickle.BUILD)

    values = [module({**WEIGHTS, "x": case.armed()}), (case_call(case, "constant"),)]
    case.write("model.pt", maker.saved(values, ("data.pkl", "constants.pkl")))
    case.loads = [["member", f"{case.folder}/model.pt", f"m/{name}"] for name in ("data.pkl", "constants.pkl")]
    case.done("model.pt", under="x")


def exported(maker):
    """Writes an exported program, which contains files of torch.save: the weights, and an object among the constants. The
    example inputs are also a pickle, which ferry does not read."""
    case = maker.case("exported")
    config = {"config": {"object": {"path_name": "custom_obj_0", "use_pickle": True, "tensor_meta": None}}}
    inside = {
        "data/weights/model.pt": maker.saved({**WEIGHTS, "x": case.armed()}),
        "data/constants/custom_obj_0": maker.pickled(case_call(case, "constant"), {}),
        "data/sample_inputs/model.pt": maker.saved(case_call(case, "inputs")),
    }
    file = io.BytesIO()
    others = {"archive_format": "pt2", "models/model.json": "{}", ".data/version": "6\n"}
    others["data/constants/model_constants_config.json"] = json.dumps(config)
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in {**others, **inside}.items():
            archive.writestr(f"m/{name}", member)
    path = case.write("model.pt2", file.getvalue())
    kinds = ("nested", "member", "nested")
    case.loads = [[kind, path, f"m/{name}"] for kind, name in zip(kinds, inside)]
    case.done("model.pt2", under="x")


def shards(maker):
    case = maker.case("shards")
    weight_map = {}
    for at, (name, tensor) in enumerate(WEIGHTS.items()):
        file = f"pytorch_model-{at + 1:05}-of-00002.bin"
        case.write(file, maker.saved({name: tensor, **({"x": case.armed(storages=False)} if at else {})}), "torch")
        weight_map[name] = file
    index = json.dumps({"metadata": {"total_size": 56}, "weight_map": weight_map})
    case.write("pytorch_model.bin.index.json", index.encode())
    case.done("pytorch_model.bin.index.json", under="x")


def distributed(maker, in_table):
    """Writes a checkpoint with calls in the table, or in a tensor's chunk and in an object."""
    case = maker.case("table" if in_table else "chunk")
    state, stored, data = {}, {}, b""
    for name, tensor in WEIGHTS.items():
        offsets = torch.Size([0] * tensor.dim())
        chunk = maker.saved(tensor if in_table else case.hidden(f"{name}.", tensor, storages=True))
        stored[metadata.MetadataIndex(name, offsets)] = filesystem._StorageInfo("__0_0.distcp", len(data), len(chunk))
        data += chunk
        state[name] = metadata.TensorStorageMetadata(
            metadata.TensorProperties.create_from_tensor(tensor), tensor.size(),
            [metadata.ChunkStorageMetadata(offsets, tensor.size())],
        )
    if not in_table:
        chunk = maker.saved(case.armed())
        stored[metadata.MetadataIndex("x")] = filesystem._StorageInfo("__0_0.distcp", len(data), len(chunk))
        state["x"] = metadata.BytesStorageMetadata()
        data += chunk
    path = case.write("__0_0.distcp", data)
    slices = [["slice", path, place.offset, place.length] for place in stored.values()]
    extra = case.armed(storages=False) if in_table else None
    paths = {name: (name,) for name in state}
    table = metadata.Metadata(state, paths, stored, storage_meta=extra, version="1.0.0")
    # Tables usually use protocol 4. ferry also reads tables of lower protocols that have the
    # instruction NEWOBJ.
    table_maker = maker if in_table else Maker(maker.folder, 4)
    case.write(".metadata", table_maker.pickled(table, {}), "pickle")
    case.loads += slices
    case.done("", under=None if in_table else "x", refused=in_table and maker.protocol < 2)


def deepspeed(maker, stage):
    """Writes a checkpoint with calls in each of its files. `stage` 0 is a universal checkpoint."""
    case = maker.case(f"deepspeed{stage}")
    folder, weight, buffer = "global_step1", WEIGHTS["w"], WEIGHTS["b"]
    module = {"w": torch.zeros(0) if stage == 3 else weight, "b": buffer}
    model = {
        "module": {**module, "odd": case_call(case, "odd")}, "buffer_names": ["b"],
        "param_shapes": [{"w": weight.size()}], "frozen_param_shapes": None, "frozen_param_fragments": None,
        "shared_params": {}, "ds_version": "0.19.8", "client": case.armed("model."),
    }
    name = "zero_pp_rank_0_mp_rank_00" if stage == 3 else "mp_rank_00"
    case.write(f"{folder}/{name}_model_states.pt", maker.saved(model), "torch")
    if stage:
        vectors = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        states = {
            "zero_stage": stage, "partition_count": 1, vectors: [weight.flatten()],
            "loss_scaler": case_call(case, "scaler"),
        }
        optimizer = {"optimizer_state_dict": states, "client": case.armed("optimizer.")}
        case.write(f"{folder}/zero_pp_rank_0_mp_rank_00_optim_states.pt", maker.saved(optimizer), "torch")
    else:
        case.write(f"{folder}/zero/optimizer_state.pt", maker.saved({}))
        parameter = {"param": weight, "client": case.armed("parameter.")}
        case.write(f"{folder}/zero/w/fp32.pt", maker.saved(parameter), "torch")
    case.write("latest", folder.encode())
    case.done("")


def refused(maker):
    """Writes one file for each value that cannot be determined without executing a call."""
    names = list(needed(lambda name: name, maker.protocol))
    for name in names:
        case = maker.case(name)
        value = needed(case.mark, maker.protocol)[name]
        case.markers = [marker for marker in case.markers if marker.endswith(f".{name}")]
        case.write("model.pt", maker.saved({"x": value, **WEIGHTS}), "torch")
        case.done("model.pt", refused=True)


def main():
    (folder,) = sys.argv[1:]
    os.makedirs(f"{folder}/markers")
    with open(f"{folder}/hubconf.py", "w") as file:
        file.write(HUB)
    cases = []
    for protocol in range(6):
        maker = Maker(folder, protocol)
        for make in [archive, stream, tar, script, exported, shards, refused]:
            make(maker)
        for in_table in [True, False]:
            distributed(maker, in_table)
        for stage in [0, 2, 3]:
            deepspeed(maker, stage)
        cases += maker.cases
    print(json.dumps(cases))


if __name__ == "__main__":
    main()
