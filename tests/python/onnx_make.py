"""Writes ONNX models to a folder, and prints their outputs for an input.

The models have two layers with a branch, and weights in raw fields (`raw.onnx`), in typed fields
(`typed.onnx`) and in a separate file (`beside.onnx`). `weights.npz` has other weights with the same
names. Prints the outputs of the models with their own weights and with those of `weights.npz`.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(7)
SHAPES = {"layer.weight": (64, 32), "layer.bias": (32,), "branch.scale": (32,), "half": (32,)}
TYPES = {"half": np.float16}


def weights():
    return {name: random.standard_normal(shape).astype(TYPES.get(name, np.float32)) for name, shape in SHAPES.items()}


def tensor(name, value, typed):
    if not typed:
        return numpy_helper.from_array(value, name)
    data_type = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor(name, data_type, value.shape, value.flatten().tolist())


def model(values, typed):
    inside = tensor("scale", values["branch.scale"], typed)
    then = helper.make_graph([helper.make_node("Mul", ["sum", "scale"], ["then"])], "then", [],
                             [helper.make_tensor_value_info("then", TensorProto.FLOAT, [1, 32])], [inside])
    otherwise = helper.make_graph([helper.make_node("Identity", ["sum"], ["else"])], "else", [],
                                  [helper.make_tensor_value_info("else", TensorProto.FLOAT, [1, 32])])
    nodes = [
        helper.make_node("MatMul", ["x", "layer.weight"], ["product"]),
        helper.make_node("Add", ["product", "layer.bias"], ["sum"]),
        helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True), "yes")),
        helper.make_node("If", ["yes"], ["chosen"], name="choice", then_branch=then, else_branch=otherwise),
        helper.make_node("Cast", ["half"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["chosen", "wide"], ["y"]),
    ]
    outer = [tensor(name, values[name], typed) for name in ["layer.weight", "layer.bias", "half"]]
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32])], outer)
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)], doc_string="kept")
    onnx.checker.check_model(made, full_check=True)
    return made


own, others = weights(), weights()
onnx.save_model(model(own, False), folder / "raw.onnx")
onnx.save_model(model(own, True), folder / "typed.onnx")
onnx.save_model(model(own, False), folder / "beside.onnx", save_as_external_data=True, location="beside.bin")
renamed = {"choice/then_branch/scale" if name == "branch.scale" else name: value for name, value in others.items()}
np.savez(folder / "weights.npz", **renamed)


def result(values):
    x = np.linspace(-1, 1, 64, dtype=np.float32)[None]
    y = (x @ values["layer.weight"] + values["layer.bias"]) * values["branch.scale"] + values["half"].astype(np.float32)
    return y[0].tolist()


print(json.dumps({"own": result(own), "others": result(others)}))
