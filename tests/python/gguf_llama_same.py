"""Compares a GGUF file with the output of llama.cpp's own converter for the folder: gguf_llama_same.py FOLDER GGUF CACHE

The converter is from the source package of llama-cpp-python, which is downloaded into CACHE if it is missing. Prints the
differences as JSON: names, types and bytes of tensors, and entries of the metadata.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader

PACKAGE = "llama_cpp_python-0.3.36"
# Descriptive metadata, which the converter derives from the name of the folder and the number of
# weights.
FOR_PEOPLE = ("general.name", "general.basename", "general.size_label", "general.finetune", "general.version", "general.sampling.")


def converter(cache):
    script = cache / PACKAGE / "vendor/llama.cpp/convert_hf_to_gguf.py"
    if not script.exists():
        with tempfile.TemporaryDirectory(dir=cache.parent) as fresh:
            name = PACKAGE.replace("_", "-").replace("-0.", "==0.")
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python",
                            "--dest", fresh, name], check=True, stdout=sys.stderr)
            with tarfile.open(Path(fresh) / f"{PACKAGE}.tar.gz") as package:
                wanted = ("convert_hf_to_gguf.py", "/llama.cpp/conversion/", "/llama.cpp/gguf-py/")
                members = [member for member in package if any(part in member.name for part in wanted)]
                package.extractall(cache, members, filter="data")
    return script


def facts(path):
    reader = GGUFReader(path)
    tensors = {t.name: (t.tensor_type.name, [int(d) for d in t.shape], np.ascontiguousarray(t.data).tobytes()) for t in reader.tensors}
    fields = {key: (field.types[-1].name, field.contents()) for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    return tensors, fields


folder, path, cache = map(Path, sys.argv[1:])
cache.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as made:
    output = Path(made) / "expected.gguf"
    # The converter recognizes a tokenizer's pre-tokenization by the tokens of a certain text, which
    # no test tokenizer yields. The script passes ferry's value to the converter, so that all other
    # output can be compared.
    words = {key: value for key, (_, value) in facts(path)[1].items() if key == "tokenizer.ggml.pre"}
    start = ("import runpy, sys; sys.argv[0] = sys.argv[1]; del sys.argv[1]\n"
             "sys.path.insert(0, __import__('os').path.dirname(sys.argv[0]))\n"
             "sys.path.insert(1, sys.path[0] + '/gguf-py')\n"
             "from conversion.base import TextModel\n"
             f"TextModel.get_vocab_base_pre = lambda *_: {words.get('tokenizer.ggml.pre', '')!r}\n"
             "runpy.run_path(sys.argv[0], run_name='__main__')")
    command = [sys.executable, "-c", start, converter(cache), folder, "--outfile", output, "--outtype", "bf16"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "USE_TF": "0"})
    if done.returncode:
        sys.exit(done.stderr)
    expected, found = facts(output), facts(path)

differs = []
for name in sorted(expected[0].keys() | found[0].keys()):
    one, other = expected[0].get(name), found[0].get(name)
    if one is None or other is None or one[:2] != other[:2]:
        differs.append([name, one and list(one[:2]), other and list(other[:2])])
    elif one[2] != other[2]:
        apart = np.abs(np.frombuffer(one[2], np.uint8).astype(int) - np.frombuffer(other[2], np.uint8)).max()
        differs.append([name, "bytes", int(apart)])
for key in sorted(expected[1].keys() | found[1].keys()):
    one, other = expected[1].get(key), found[1].get(key)
    if one != other and not key.startswith(FOR_PEOPLE):
        differs.append([key, str(one)[:100], str(other)[:100]])
print(json.dumps({"tensors": len(expected[0]), "keys": len(expected[1]), "differs": differs}))
