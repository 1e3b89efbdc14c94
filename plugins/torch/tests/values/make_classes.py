"""Writes classes/: modules and tensors whose classes have their own serialization.

    python make_classes.py      # torch, torchao and bitsandbytes

X.pt contains the object. X.want.pt contains what torch loads from it: the state dict of a module, or the
dequantized tensors of torchao.
"""
import os
import pathlib
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

warnings.filterwarnings("ignore")
OUT = pathlib.Path(__file__).parent / "classes"


def save(name, made):
    torch.save(made, OUT / f"{name}.pt")


class Static(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.conv, self.transposed = nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(2, 3, 2)
        self.linear, self.embedding = nn.Linear(4, 5, bias=False), nn.Embedding(10, 12)
        self.sum, self.norm = torch.ao.nn.quantized.FloatFunctional(), nn.BatchNorm2d(4)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x):
        y = self.norm(self.conv(self.quant(x)))
        return self.dequant(self.linear(self.sum.add(y, y).mean((2, 3))))


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.lstm, self.cell = nn.Linear(8, 6), nn.LSTM(6, 5, 2), nn.LSTMCell(4, 3)


def quantized():
    static = Static().eval()
    static.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
    static.transposed.qconfig = torch.ao.quantization.default_qconfig
    static.embedding.qconfig = torch.ao.quantization.float_qparams_weight_only_qconfig
    static = torch.ao.quantization.prepare(static)
    static(torch.randn(2, 3, 8, 8))
    static.transposed(torch.randn(1, 2, 5, 5))
    models = {"static": torch.ao.quantization.convert(static)}
    for name, dtype in [("dynamic", torch.qint8), ("dynamic_f16", torch.float16)]:
        kinds = {nn.Linear, nn.LSTM, nn.LSTMCell}
        models[name] = torch.ao.quantization.quantize_dynamic(Dynamic(), kinds, dtype=dtype)
    return models


def bitsandbytes():
    import bitsandbytes as bnb

    four, double = bnb.nn.Linear4bit(64, 16, bias=False, quant_type="fp4"), bnb.nn.LinearNF4(64, 32)
    model = nn.Sequential(double, four, bnb.nn.Linear8bitLt(32, 16, has_fp16_weights=False), nn.Linear(4, 4))
    return {"bitsandbytes": model.to("cpu")}


class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.lstm = nn.Linear(2, 2), nn.LSTM(2, 3)
        self.plain, self._hidden = torch.ones(3), {"a": [torch.ones(4)]}
        self.listed, self.again = [nn.Linear(2, 1, bias=False)], [self.linear]
        self.same, self.sizes = self.linear.weight.data, [1, 2]


class Script(nn.Module):
    entries: dict[str, torch.Tensor]

    def __init__(self):
        super().__init__()
        self.linear, self.listed = nn.Linear(2, 2), nn.ParameterList([nn.Parameter(torch.ones(9))])
        self.register_buffer("buffer", torch.ones(3))
        self.plain, self.entries = torch.ones(5), {"k": torch.ones(7)}

    def forward(self, x):
        return self.linear(x) + self.plain[0] + self.entries["k"][0] + self.buffer[0]


def torchao():
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        MappingType,
        quantize_,
    )
    from torchao.quantization.granularity import PerGroup, PerTensor

    asymmetric = {"granularity": PerGroup(16), "mapping_type": MappingType.ASYMMETRIC}
    for name, config in {
        "int8": Int8WeightOnlyConfig(version=2),
        "int8_tensor": Int8WeightOnlyConfig(version=2, granularity=PerTensor()),
        "intx": IntxWeightOnlyConfig(weight_dtype=torch.int3, version=2, **asymmetric),
        "float8": Float8WeightOnlyConfig(version=2),
    }.items():
        model = nn.Sequential(nn.Linear(64, 4))
        quantize_(model, config)
        state = model.state_dict()
        save(f"torchao_{name}", state)
        save(f"torchao_{name}.want", {"0.weight": state["0.weight"].dequantize(), "0.bias": state["0.bias"]})


def ranks(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577", RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo")
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (world,))
    full = torch.arange(30.0).reshape(5, 6)
    replicated = distribute_tensor(full, mesh, [Replicate()])
    made = {
        "replicated": {"w": replicated, "p": nn.Parameter(distribute_tensor(full + 1, mesh, [Replicate()]))},
        "cut": {"w": distribute_tensor(full, mesh, [Shard(0)])},
        "terms": {"w": DTensor.from_local(full, mesh, [Partial()])},
        "shards": {
            "w": sharded_tensor.ones(
                ChunkShardingSpec(dim=0, placements=[f"rank:{r}/cpu" for r in range(world)]), 4, 3
            )
        },
    }
    for name, state in made.items():
        if rank == world - 1:
            save(f"{name}_{rank}_of_{world}", state)
    dist.destroy_process_group()


def main():
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(0)
    for name, model in {**quantized(), **bitsandbytes()}.items():
        save(name, model)
        save(f"{name}.want", model.state_dict())
    save("attributes", Attributes())
    torch.jit.script(Script()).save(OUT / "script.pt")
    torchao()
    for world in (1, 2):
        torch.multiprocessing.spawn(ranks, (world,), nprocs=world)
    save("masked", {"w": torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True]))})
    jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    save("jagged", {"w": jagged})


if __name__ == "__main__":
    main()
