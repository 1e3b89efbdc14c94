"""An example for type checkers, which is also run. It writes into the current folder."""

import numpy
import torch

import tensorferry
from tensorferry.torch import load_file


def main() -> None:
    weights = {"a.weight": torch.eye(3), "a.bias": torch.zeros(3, dtype=torch.bfloat16)}
    tensorferry.save(weights, "model.safetensors", {"made": "by an example"})

    with tensorferry.open("model.safetensors") as model:
        for name, tensor in model.items():
            print(name, tensor.dtype, tensor.shape)
        row: numpy.ndarray = model["a.weight"][1:2].numpy()
        assert row.shape == (1, 3)
        assert model.metadata["made"] == "by an example"

    report = tensorferry.convert("model.safetensors", "model.npz", steps=["cast:f32"], strict=False)
    assert report.tensors == 2 and [loss.kind for loss in report.losses] is not None
    assert load_file("model.npz")["a.weight"].dtype == torch.float32

    found = tensorferry.diff("model.safetensors", "model.npz")
    for difference in found.differences:
        print(difference.kind, difference.a, difference.b, difference.first, difference.records, found.tensors, found.columns)
    for verdict in tensorferry.verify(b"model.npz"):
        print(verdict.verdict, verdict.problems, verdict.error, verdict.files, verdict.bytes, verdict.receipt)
    for known in tensorferry.formats().values():
        assert known.library is None or known.plugin is not None, known.members
    print([column.shape for column in tensorferry.inspect(b"model.npz").columns.values()])
    tensorferry.save({"one": numpy.float32(1)}, "scalar.npz")

    try:
        tensorferry.open("absent.gguf")
    except tensorferry.NotFoundError as error:
        assert error.file == "absent.gguf"


main()
