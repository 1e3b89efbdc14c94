"""Times ferry's readers of training formats, alternating with `cp` and with the library of each
format.

    bench_formats.py FERRY [--rounds N] [KIND...]      KIND: keras, flax, orbax, megatron, webdataset, mds; default: all

All files are in memory (/dev/shm, about 4 GB). The script measures these conversions:

- 512 MiB of F32 in 32 matrices to safetensors, compared with the library's load and `save_file`
- 590 MB of BF16 in two tensor-parallel Megatron ranks to safetensors, compared with `torch.load`, `torch.cat` and
  `save_file`
- 100 MB of samples of 1 kB, and 200 MB of samples of 100 kB, to Parquet, compared with the library and pyarrow

ferry's time is that of the whole process. Python's time excludes interpreter startup and imports.
Ratios compare the best runs.
"""
import argparse
import os
import shutil
import subprocess
import tempfile
import time

import numpy as np
from safetensors.numpy import save_file

os.environ["JAX_PLATFORMS"] = "cpu"
SAMPLES = [(1_000, 100_000), (100_000, 2_000)]


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def timed(work):
    fresh("out")
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def convert(ferry, arguments):
    subprocess.run([ferry, "convert", "--quiet", *arguments], check=True, capture_output=True)


def row(title, options, arguments, peer, copied=None):
    ways = {"ferry": lambda: convert(options.ferry, arguments), "library": peer}
    if copied:
        ways["cp"] = lambda: subprocess.run(["cp", "-r", copied, "out/copy"], check=True)
    times = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, work in ways.items():
            times[way].append(timed(work))
    spread = "; ".join(f"{way} {min(all):.3f} to {max(all):.3f} s" for way, all in times.items())
    best = {way: min(all) for way, all in times.items()}
    ratios = f"{best['library'] / best['ferry']:.1f} x the library"
    if copied:
        ratios += f", {best['ferry'] / best['cp']:.2f} of cp"
    print(f"{title}: {ratios} ({spread})", flush=True)


def weights():
    random = np.random.default_rng(0)
    return {f"layer{i}.w": random.standard_normal((1024, 4096), dtype=np.float32) for i in range(32)}


def keras(options):
    import h5py

    with h5py.File("m.weights.h5", "w") as file:
        for name, values in weights().items():
            file.create_dataset(f"layers/{name.split('.')[0]}/vars/0", data=values)

    def peer():
        found = {}
        with h5py.File("m.weights.h5") as file:
            file.visititems(lambda name, it: found.update({name: it[()]}) if isinstance(it, h5py.Dataset) else None)
        save_file(found, "out/m.safetensors")

    row("keras", options, ["m.weights.h5", "out/m.safetensors", "--from", "keras"], peer, "m.weights.h5")


def flax(options):
    from flax import serialization

    with open("m.msgpack", "wb") as file:
        file.write(serialization.msgpack_serialize({"params": weights()}))

    def peer():
        with open("m.msgpack", "rb") as file:
            save_file(serialization.msgpack_restore(file.read())["params"], "out/m.safetensors")

    row("flax", options, ["m.msgpack", "out/m.safetensors"], peer, "m.msgpack")


def orbax(options):
    import orbax.checkpoint as ocp

    def restored(folder):
        tree = ocp.PyTreeCheckpointer().restore(os.path.abspath(folder))
        save_file({name: np.asarray(branch["w"]) for name, branch in tree.items()}, "out/m.safetensors")

    tree = {name.split(".")[0]: {"w": values} for name, values in weights().items()}
    save_file({f"{name}.w": branch["w"] for name, branch in tree.items()}, "m.safetensors")
    convert(options.ferry, ["m.safetensors", "plain/", "--to", "orbax"])
    ocp.PyTreeCheckpointer().save(os.path.abspath("packed"), tree)
    for title, folder in (("orbax, plain", "plain"), ("orbax, OCDBT and zstd", "packed")):
        row(title, options, [f"{folder}/", "out/m.safetensors"], lambda: restored(folder), folder)


def megatron(options):
    import argparse
    import torch
    from safetensors.torch import save_file

    hidden, heads, groups, width, inner, words, layers = 2048, 16, 4, 128, 5632, 16384, 5
    args = argparse.Namespace(
        tensor_model_parallel_size=2, pipeline_model_parallel_size=1, num_layers=layers, hidden_size=hidden,
        num_attention_heads=heads, num_query_groups=groups, group_query_attention=True, ffn_hidden_size=inner,
        kv_channels=width, swiglu=True, normalization="RMSNorm", untie_embeddings_and_output_weights=True,
        position_embedding_type="rope", padded_vocab_size=words, make_vocab_size_divisible_by=128,
        max_position_embeddings=4096, params_dtype=torch.bfloat16, iteration=5, add_bias_linear=False,
        use_legacy_models=False, ckpt_format="torch", transformer_impl="local", num_experts=None,
    )  # fmt: skip
    # The shape of each tensor on a rank, and the axis along which it is split.
    parts = {"embedding.word_embeddings.weight": ((words // 2, hidden), 0)}
    for i in range(layers):
        parts[f"decoder.layers.{i}.input_layernorm.weight"] = ((hidden,), None)
        parts[f"decoder.layers.{i}.self_attention.linear_proj.weight"] = ((hidden, heads * width // 2), 1)
        parts[f"decoder.layers.{i}.self_attention.linear_qkv.weight"] = (((heads + 2 * groups) * width // 2, hidden), 0)
        parts[f"decoder.layers.{i}.pre_mlp_layernorm.weight"] = ((hidden,), None)
        parts[f"decoder.layers.{i}.mlp.linear_fc1.weight"] = ((inner, hidden), "gated")
        parts[f"decoder.layers.{i}.mlp.linear_fc2.weight"] = ((hidden, inner // 2), 1)
    parts["decoder.final_layernorm.weight"] = ((hidden,), None)
    parts["output_layer.weight"] = ((words // 2, hidden), 0)
    names = [f"run/iter_0000005/mp_rank_{rank:02d}/model_optim_rng.pt" for rank in range(2)]
    for rank, name in enumerate(names):
        random = torch.Generator().manual_seed(rank)
        model = {
            part: torch.ones(shape).bfloat16() if axis is None else torch.randn(shape, generator=random).bfloat16()
            for part, (shape, axis) in parts.items()
        }
        os.makedirs(os.path.dirname(name))
        torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 5, "model": model}, name)
    with open("run/latest_checkpointed_iteration.txt", "w") as file:
        file.write("5")

    def peer():
        ranks = [torch.load(name, weights_only=False)["model"] for name in names]
        joined = {}
        for part, (_, axis) in parts.items():
            both = [rank[part] for rank in ranks]
            if axis == "gated":
                both = [half for halves in zip(*(rank.chunk(2) for rank in both)) for half in halves]
            joined[part] = both[0] if axis is None else torch.cat(both, 0 if axis == "gated" else axis)
        save_file(joined, "out/m.safetensors")

    row("megatron, two tensor ranks", options, ["run/", "out/m.safetensors"], peer, "run")


def write_parquet(samples, table):
    import pyarrow.parquet as pq

    writer, waiting = None, []

    def flush():
        nonlocal writer
        rows = table(waiting)
        writer = writer or pq.ParquetWriter("out/rows.parquet", rows.schema)
        writer.write_table(rows)
        waiting.clear()

    for sample in samples:
        waiting.append(sample)
        if len(waiting) == 10_000:
            flush()
    if waiting:
        flush()
    writer.close()


def webdataset(options):
    import pyarrow as pa
    import webdataset as wds

    def table(samples):
        columns = {name: [sample[name] for sample in samples] for name in ("__key__", "jpg")}
        return pa.table(columns | {"cls": [int(sample["cls"]) for sample in samples]})

    for size, count in SAMPLES:
        random = np.random.default_rng(0).bytes(size + count)
        with wds.TarWriter("d.tar") as writer:
            for i in range(count):
                writer.write({"__key__": f"{i:08d}", "jpg": random[i : i + size], "cls": i % 10})

        def peer():
            write_parquet(wds.WebDataset("d.tar", shardshuffle=False, empty_check=False), table)

        row(f"webdataset, {size} B a sample", options, ["d.tar", "out/rows.parquet"], peer)


def mds(options):
    import pyarrow as pa
    from streaming import LocalDataset, MDSWriter

    def table(samples):
        return pa.table({name: [sample[name] for sample in samples] for name in ("id", "x")})

    for size, count in SAMPLES:
        random = np.random.default_rng(0).bytes(size + count)
        shutil.rmtree("mds", ignore_errors=True)
        with MDSWriter(out="mds", columns={"id": "int", "x": "bytes"}) as writer:
            for i in range(count):
                writer.write({"id": i, "x": random[i : i + size]})

        def peer():
            data = LocalDataset("mds")
            write_parquet((data[i] for i in range(len(data))), table)

        row(f"mds, {size} B a sample", options, ["mds/", "out/rows.parquet"], peer)


KINDS = {"keras": keras, "flax": flax, "orbax": orbax, "megatron": megatron, "webdataset": webdataset, "mds": mds}
parser = argparse.ArgumentParser()
parser.add_argument("ferry", type=os.path.abspath)
parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_intermixed_args()
for kind in options.kinds or KINDS:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chdir(folder)
        KINDS[kind](options)
        os.chdir("/")
