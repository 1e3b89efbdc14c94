"""Compares random HDF5 datasets that h5py reads with ferry's conversions of them.

    python hdf5_datasets.py FERRY [--count 300] [--seed 0] [--keep FOLDER]

Each file has up to 12 datasets with a random type, shape, layout, index, filters, fill value and
history of writes and resizes. ferry converts the file to .npz, which numpy reads. Each dataset must
be equal bit for bit. If a tensor cannot have the dataset's type, a loss must name the dataset
instead. If a dataset differs, the script tests it again in a separate file and prints its seed.
`--only SEED` repeats that test.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import h5py
import numpy as np

LIBVERS = ["earliest", "v108", "v110", "v112", "latest"]
NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
NAMES = ["w", "kernel:0", "0", "10", "vars", "ä", "a b", "x" * 300, "layer.weight", "Ω→"]


class Kind:
    """A datatype for h5py, whether a tensor can have it, and a function that creates values of it."""

    def __init__(self, rng):
        choice = rng.random()
        self.is_lost = False
        self.inner = ()
        order = rng.choice("<>")
        if choice < 0.7:
            self.dtype = np.dtype(order + rng.choice(NUMBERS))
        elif choice < 0.76:
            self.dtype = np.dtype(bool)
        elif choice < 0.80:
            self.dtype = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 7}, basetype=order + rng.choice(["i1", "u2", "i4"]))
        elif choice < 0.86:
            self.inner = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 2)))
            self.dtype = np.dtype((order + rng.choice(NUMBERS), self.inner))
        elif choice < 0.90:
            fields = [(f"f{i}", order + rng.choice(NUMBERS + ["S3"])) for i in range(rng.randint(1, 4))]
            if rng.random() < 0.5:
                fields.append(("text", h5py.string_dtype()))
            rng.shuffle(fields)
            self.dtype, self.is_lost = np.dtype(fields), True
        elif choice < 0.92:
            self.dtype, self.is_lost = h5py.vlen_dtype(np.dtype(order + rng.choice(NUMBERS[:8]))), True
        elif choice < 0.94:
            self.dtype, self.is_lost = h5py.ref_dtype, True
        elif choice < 0.96:
            self.dtype, self.is_lost = np.dtype("V5"), True
        else:
            self.dtype, self.is_lost = np.dtype([("r", order + "i4"), ("i", order + "i4")]), True
        self.base = self.dtype.base

    def values(self, np_rng, shape):
        shape = tuple(shape) + self.inner
        if self.is_lost:
            return None
        if self.base == bool:
            return np_rng.integers(0, 2, shape).astype(bool)
        if h5py.check_enum_dtype(self.base):
            return np_rng.choice([0, 1, 7], shape).astype(self.base)
        data = np_rng.integers(0, 256, (*shape, self.base.itemsize), dtype=np.uint8)
        return np.ascontiguousarray(data).view(self.base)[..., 0]


def shape_of(rng):
    if rng.random() < 0.04:
        return (rng.randint(1500, 6000),), 1
    if rng.random() < 0.03:
        return (rng.randint(30, 90), rng.randint(30, 90)), 1
    if rng.random() < 0.01:
        return tuple(rng.randint(1, 2) for _ in range(rng.randint(6, 12))), 2
    rank = rng.choices([0, 1, 2, 3, 4], [1, 5, 6, 3, 1])[0]
    return tuple(rng.choice([0, 1, 2, 3, 5, 8, 13, 20]) if rng.random() < 0.9 else 7 for _ in range(rank)), 0


def boxes(rng, shape):
    """Returns random parts of a shape to write."""
    if rng.random() < 0.3:
        return [tuple(slice(0, n) for n in shape)]
    found = []
    for _ in range(rng.randint(0, 3)):
        box = []
        for n in shape:
            start = rng.randint(0, max(0, n - 1))
            box.append(slice(start, rng.randint(start, n)))
        found.append(tuple(box))
    return found


def write(dataset, kind, rng, np_rng):
    if kind.is_lost or 0 in dataset.shape:
        return
    for box in boxes(rng, dataset.shape):
        part = [s.stop - s.start for s in box]
        if 0 not in part:
            dataset[box] = kind.values(np_rng, part)


def make(group, name, seed):
    """Creates the dataset for a seed. Returns whether a tensor can have its type."""
    rng, np_rng = random.Random(seed), np.random.default_rng(abs(hash_of(seed)))
    kind = Kind(rng)
    shape, tiny = shape_of(rng)
    if tiny == 1:
        kind.dtype, kind.base, kind.inner, kind.is_lost = np.dtype("u1"), np.dtype("u1"), (), False
    dtype = kind.dtype
    if rng.random() < 0.1 and not kind.is_lost:
        group.file[f"type_{name}_{seed}".replace("/", "_")[:40]] = dtype
        dtype = group.file[f"type_{name}_{seed}".replace("/", "_")[:40]]
    rank = len(shape)
    options = {}
    is_chunked = rank > 0 and rng.random() < 0.75
    if is_chunked:
        edge = 3 if tiny else 9
        options["chunks"] = tuple(rng.randint(1, edge) for _ in shape)
        if tiny == 1 and rank == 1:
            options["chunks"] = (rng.randint(1, 2),)
        draw = rng.random()
        if draw < 0.7:
            def most(n):
                return n if draw < 0.1 else rng.choice([n, n + rng.randint(0, 12), max(n, 1) * rng.randint(1, 3), None if draw < 0.5 else n])
            options["maxshape"] = tuple(most(n) for n in shape)
            if all(c is None or True for c in options["maxshape"]):
                limits = options["maxshape"]
                options["chunks"] = tuple(min(c, m) if m else c for c, m in zip(options["chunks"], limits))
                options["chunks"] = tuple(max(c, 1) for c in options["chunks"])
        if "maxshape" not in options:
            options["chunks"] = tuple(max(1, min(c, n)) for c, n in zip(options["chunks"], shape))
        if 0 in shape and "maxshape" not in options:
            options.pop("chunks")
            is_chunked = False
        if is_chunked and 0 in [m for m in options.get("maxshape", ()) if m is not None]:
            options.pop("chunks"), options.pop("maxshape")
            is_chunked = False
    if is_chunked and rng.random() < 0.6:
        if rng.random() < 0.5:
            options["compression"] = rng.choice(["gzip", "lzf"])
        options["shuffle"] = rng.random() < 0.5
        options["fletcher32"] = rng.random() < 0.4 and not kind.is_lost
    if rng.random() < 0.4 and not kind.is_lost and not kind.inner:
        options["fillvalue"] = kind.values(np_rng, ())[()]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    times = [h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE] + ([h5py.h5d.ALLOC_TIME_INCR] if is_chunked else [])
    if rng.random() < 0.5 and not kind.is_lost:
        plist.set_alloc_time(rng.choice(times))
    if kind.inner and rng.random() < 0.3 and not is_chunked and 0 < np.prod(shape, dtype=int) * dtype_size(kind) < 60000:
        plist.set_layout(h5py.h5d.COMPACT)
    elif not is_chunked and rng.random() < 0.2 and np.prod(shape, dtype=int) * dtype_size(kind) < 60000 and not kind.is_lost:
        plist.set_layout(h5py.h5d.COMPACT)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    options["track_times"] = rng.random() < 0.2
    dcpl = plist
    dataset = group.create_dataset(name, shape, dtype=dtype, dcpl=dcpl, **options)
    write(dataset, kind, rng, np_rng)
    if is_chunked and "maxshape" in options:
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            new = tuple(
                rng.randint(0 if rng.random() < 0.05 else 1, limit if limit is not None else max(n + 10, int(n * 1.5)))
                if limit != 0 else 0
                for n, limit in zip(dataset.shape, options["maxshape"])
            )
            dataset.resize(new)
            if rng.random() < 0.7:
                write(dataset, kind, rng, np_rng)
    if is_chunked and not kind.is_lost and rng.random() < 0.15 and options.get("compression") == "gzip":
        direct_chunk(dataset, kind, rng, np_rng, options)
    for number in range(rng.choice([0, 0, 0, 1, 3, 12])):
        dataset.attrs[f"attribute{number}"] = rng.choice([1.5, "text", [1, 2, 3], ["a", "b"], np.float32(2)])
    return not kind.is_lost


def direct_chunk(dataset, kind, rng, np_rng, options):
    """Writes one chunk without filters, which a filter mask allows."""
    if 0 in dataset.shape:
        return
    place = tuple(rng.randrange(0, n, c) for n, c in zip(dataset.shape, dataset.chunks))
    filters = int(options.get("shuffle", False)) + 1 + int(options.get("fletcher32", False))
    data = kind.values(np_rng, dataset.chunks)
    dataset.id.write_direct_chunk(place, np.ascontiguousarray(data).tobytes(), filter_mask=(1 << filters) - 1)


def dtype_size(kind):
    return kind.base.itemsize * int(np.prod(kind.inner, dtype=int))


def hash_of(text):
    return int.from_bytes(str(text).encode().ljust(16, b".")[-12:], "little")


def make_file(path, seed, seeds):
    """Writes a file with the datasets for these seeds. Returns the path and the seed of each, and whether a tensor can have its type."""
    rng = random.Random(f"file {seed}")
    low = LIBVERS[rng.randrange(len(LIBVERS))]
    arguments = {"libver": (low, "latest") if low != "latest" else "latest", "track_order": rng.random() < 0.2}
    if rng.random() < 0.1:
        arguments["userblock_size"] = rng.choice([512, 1024, 4096])
    if rng.random() < 0.15:
        create = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        create.set_sizes(*rng.choice([(4, 4), (8, 8), (4, 8), (8, 4)]))
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        versions = {"earliest": h5py.h5f.LIBVER_EARLIEST, "latest": h5py.h5f.LIBVER_LATEST}
        access.set_libver_bounds(versions.get(low, h5py.h5f.LIBVER_V110), h5py.h5f.LIBVER_LATEST)
        identifier = h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, create, access)
        file = h5py.File(identifier)
    else:
        file = h5py.File(path, "w", **arguments)
    found = {}
    with file:
        groups = [file]
        for _ in range(rng.randint(0, 4)):
            parent = rng.choice(groups)
            name = rng.choice(NAMES) + str(len(groups))
            groups.append(parent.create_group(name, track_order=rng.random() < 0.3))
        if rng.random() < 0.2:
            for number in range(rng.choice([9, 40])):
                file.create_group(f"empty/{number}")
        for number, own in enumerate(seeds):
            group = rng.choice(groups)
            name = f"{rng.choice(NAMES)}_{number}"
            try:
                is_kept = make(group, name, own)
            except Exception as error:
                print(f"h5py cannot make {own}: {error!r}"[:200], file=sys.stderr)
                if name in group:
                    del group[name]
                continue
            found[f"{group.name.strip('/')}/{name}".strip("/")] = (own, is_kept)
        if rng.random() < 0.1:
            group = rng.choice(groups)
            group["itself"] = group
        if found and rng.random() < 0.1:
            path_of, facts = rng.choice(sorted(found.items()))
            file["second"] = file[path_of]
            found["second"] = facts
        if found and rng.random() < 0.15:
            path_of, facts = rng.choice(sorted(found.items()))
            group = rng.choice(groups)
            target = "/" + path_of
            if path_of.startswith(group.name.strip("/") + "/") and rng.random() < 0.5:
                target = path_of[len(group.name.strip("/")) + 1 :]
            group["by name"] = h5py.SoftLink(target)
            found[f"{group.name}/by name".strip("/")] = facts
    return found


def convert(ferry, source, output):
    command = [ferry, "convert", str(source), str(output), "--from", "keras", "--json", "--quiet", "--allow-empty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {}
    return done, report


def differences(ferry, folder, seed, seeds):
    """Returns the differences in a file for these seeds: path, seed and reason."""
    source, output = folder / "in.h5", folder / "out.npz"
    output.unlink(missing_ok=True)
    found = make_file(source, seed, seeds)
    seen = {}
    with h5py.File(source) as file:
        for path in list(found):
            # HDF5 cannot open some of the files that it writes with lengths of 4 bytes and an
            # unlimited dimension.
            try:
                dataset = file[path]
                seen[path] = np.asarray(dataset[()]), f"{dataset}, chunks {dataset.chunks}, maxshape {dataset.maxshape}"
            except (KeyError, OSError) as error:
                print(f"h5py cannot read {found[path][0]}: {error}", file=sys.stderr)
                return [], 0
    done, report = convert(ferry, source, output)
    if done.returncode != 0:
        return [(None, own, done.stderr.strip()[-600:]) for own in seeds], 0
    losses = {loss.get("what") for loss in report.get("losses", [])}
    wrong, values = [], 0
    with np.load(output) as tensors:
        for path, (own, is_kept) in found.items():
            if not is_kept:
                if path not in losses:
                    wrong.append((path, own, "not converted, and not named by a loss"))
                continue
            if path not in tensors.files:
                wrong.append((path, own, f"missing from {tensors.files[:5]}, losses {losses}"))
                continue
            (expected, facts), got = seen[path], np.asarray(tensors[path])
            if expected.shape != got.shape:
                wrong.append((path, own, f"shape {got.shape}, expected {expected.shape}"))
            elif expected.dtype.kind != got.dtype.kind or expected.dtype.itemsize != got.dtype.itemsize:
                wrong.append((path, own, f"dtype {got.dtype}, expected {expected.dtype}"))
            else:
                little = expected.dtype.newbyteorder("<")
                if expected.astype(little).tobytes() != got.astype(got.dtype.newbyteorder("<")).tobytes():
                    wrong.append((path, own, f"values of {facts}"))
                values += expected.size
        extra = set(tensors.files) - set(found)
        if extra:
            wrong.append((sorted(extra)[0], None, "not in the input"))
    return wrong, values


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("ferry")
    arguments.add_argument("--count", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", help="the seed of a file and a dataset: FILE:DATASET")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments = arguments.parse_args()
    warnings.simplefilter("ignore")
    failures, values, per_file = 0, 0, 12
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.only:
            wrong, _ = differences(arguments.ferry, folder, arguments.only.split(":")[0], [arguments.only])
            print(wrong or "equal")
            sys.exit(bool(wrong))
        print(f"hdf5 seed {arguments.seed}")
        for start in range(0, arguments.count, per_file):
            number = f"{arguments.seed}-{start // per_file}"
            seeds = [f"{number}:{own}" for own in range(min(per_file, arguments.count - start))]
            wrong, compared = differences(arguments.ferry, folder, number, seeds)
            values += compared
            if not wrong:
                continue
            # One dataset may hide faults in other datasets of the same file.
            alone = []
            for own in seeds:
                again, _ = differences(arguments.ferry, folder, number, [own])
                alone.extend(again)
            for path, own, what in alone or wrong:
                failures += 1
                print(f"--only {own}: {path}: {what}")
    print(f"hdf5: {arguments.count} datasets, {values} values compared, {failures} differ")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
