"""Checks a model with onnx.checker, and prints the outputs that onnxruntime computes for an input.

The checker gets the path of the file if the file is too large for protobuf or has external data.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime

path = sys.argv[1]
onnx.checker.check_model(path, full_check=True)
loaded = onnx.load(path)
assert loaded.doc_string == "kept" and loaded.graph.name == "layers", loaded.doc_string
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
x = np.linspace(-1, 1, 64, dtype=np.float32)[None]
print(json.dumps(session.run(None, {"x": x})[0][0].tolist()))
