"""Builds the Python package: a PEP 517 backend, which pip, uv and `python -m build` call.

    pip install ./host/python                       # for this machine
    pip install --editable ./host/python            # the Python files stay in place, for development
    pip install ./host/python -C profile=dev        # from the development build, as in the tests
    pip wheel ./host/python -C target=x86_64-unknown-linux-gnu   # for Linux with glibc 2.17, to publish

The wheel contains the Python files, the extension module, the program and the library of the formats. The last three are
built with one cargo command, because separate commands would compile shared crates again with other features. The program
of the wheel is a launcher that calls the engine in the module. A second copy of the engine would make the wheel half as
large again.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

import elf

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
NAME, VERSION = PROJECT["name"], tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
LICENSES = ["LICENSE-APACHE", "LICENSE-MIT"]
# The files that the build reads. Cargo needs the manifests and programs of all members, even if it does not build them.
SOURCES = [".cargo/config.toml", "Cargo.lock", "Cargo.toml", "README.md", *LICENSES]
SOURCES += ["host", "plugins", "proto", "sdk", "tests/Cargo.toml", "tests/bench", "tests/kit", "tests/src"]
ZIG = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"]
# Rust's targets that zig links for an older glibc, so that the wheel runs on systems that have it.
TARGETS = {"x86_64-unknown-linux-gnu": "x86_64", "aarch64-unknown-linux-gnu": "aarch64"}
GLIBC = (2, 17)
MAX_BYTES = 25_000_000


def get_requires_for_build_wheel(config_settings=None):
    return ZIG if target_of(config_settings) else []


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory)
    for name, data in metadata(tag(target_of(config_settings))).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return information()


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    target, profile = target_of(config_settings), (config_settings or {}).get("profile", "release")
    python = sorted(path for path in (HERE / "python").rglob("*") if path.suffix in (".py", ".pyi", ".typed"))
    files = {path.relative_to(HERE / "python").as_posix(): path.read_bytes() for path in python}
    built = {f"{NAME}/{name}": data for name, data in binaries(profile, target).items()}
    wheel = write_wheel(wheel_directory, files | built, tag(target), 1 if profile == "dev" else 9)
    if target:
        wrong = [fault for name, data in built.items() for fault in elf.faults(name, data, GLIBC)]
        size = wheel.stat().st_size
        if size > MAX_BYTES:
            wrong.append(f"the wheel is {size / 1e6:.1f} MB, and the maximum is {MAX_BYTES / 1e6:.0f} MB")
        if wrong:
            wheel.unlink()
            sys.exit("error: " + "\n       ".join(wrong))
    return wheel.name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    for name, data in binaries((config_settings or {}).get("profile", "dev"), None).items():
        path = HERE / "python" / NAME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that is in use can be replaced, but not written to.
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(0o755)
    link = {f"{NAME}.pth": f"{HERE / 'python'}\n".encode()}
    return write_wheel(wheel_directory, link, tag(None), 1).name


def build_sdist(sdist_directory, config_settings=None):
    """Packs the part of the workspace that `build_wheel` needs. The result depends only on the contents of the files."""
    root = f"{NAME}-{VERSION}"
    description = (HERE / "pyproject.toml").read_text()
    files = {name: (ROOT / name).read_bytes() for name in source_names()}
    files["pyproject.toml"] = description.replace('backend-path = ["."]', 'backend-path = ["host/python"]').encode()
    files["PKG-INFO"] = metadata(tag(None))[f"{information()}/METADATA"]
    path = pathlib.Path(sdist_directory) / f"{root}.tar.gz"
    with gzip.GzipFile(path, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path.name


def source_names():
    """Returns the names of the sources. In a clone, git knows which files are not results of a build."""
    if (ROOT / ".git").exists():
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES]
        names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    else:
        found = [file for name in SOURCES for file in [ROOT / name, *(ROOT / name).rglob("*")]]
        names = [file.relative_to(ROOT).as_posix() for file in found]
    is_test = "host/python/tests/", "host/python/bench/", "host/docs/"
    return [name for name in names if name and (ROOT / name).is_file() and not name.startswith(is_test)]


def target_of(config_settings):
    """Returns Rust's name of the target of a wheel to publish."""
    target = (config_settings or {}).get("target")
    if target and target not in TARGETS:
        sys.exit(f"error: target={target} is not supported\nhint: pass one of {', '.join(TARGETS)}")
    return target


def tag(target):
    """Returns the tag of the wheel. Without a target, the wheel is for this machine."""
    if not target and sysconfig.get_config_var("Py_GIL_DISABLED"):
        sys.exit("error: the package does not support free-threaded Python yet\nhint: use another build of Python")
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    system = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{TARGETS[target]}" if target else here
    return f"cp311-abi3-{system}"


def binaries(profile, target):
    """Builds the files of the package that are not Python, and returns their contents."""
    if target:
        packages = ["tensorferry-formats", "tensorferry-python"]
        built = cross_build(packages, target)
    elif profile == "dev":
        # The same command as for the tests, so that nothing is compiled only for this.
        built = cargo(["build", "--workspace"])
    else:
        built = cargo(["build", "--locked", "--profile", profile, "-p", "tensorferry-formats", "-p", "tensorferry-python"])
    read = stripped if profile == "dev" else pathlib.Path.read_bytes
    return {
        "_native.abi3.so": elf.with_weak_python(read(built["_native"])),
        "_bin/ferry": read(built["ferry-of-wheel"]),
        "_bin/plugins/libferry_formats.so": read(built["ferry_formats"]),
    }


def cross_build(packages, target):
    """Builds packages for glibc 2.17, without the names of this machine's folders, and returns the paths of the results."""
    home = os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo"
    folders = {home: "/cargo", ROOT: f"/{NAME}"}
    if not target_folder().is_relative_to(ROOT):
        folders[target_folder()] = f"/{NAME}/target"
    flags = {"RUSTFLAGS": "--remap-path-prefix", "CFLAGS": "-ffile-prefix-map"}
    renamed = {name: " ".join(f"{flag}={old}={new}" for old, new in folders.items()) for name, flag in flags.items()}
    command = ["zigbuild", "--release", "--locked", "--target", f"{target}.{GLIBC[0]}.{GLIBC[1]}"]
    return cargo([*command, *(word for package in packages for word in ("-p", package))], renamed)


def target_folder():
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()


def cargo(command, variables=None):
    """Runs cargo, and returns the paths of the programs and libraries that it built."""
    for program, install in {"cargo": "Rust (https://rustup.rs)", "cc": "a C compiler, such as Debian's gcc"}.items():
        if not shutil.which(program):
            sys.exit(f"error: {program} is not on the PATH, and the package is built from source\nhint: install {install}")
    command = ["cargo", *command, "--message-format=json-render-diagnostics", "--target-dir", str(target_folder())]
    environment = {**os.environ, **(variables or {})}
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(f"error: `{' '.join(command[:2])}` failed")
    paths = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact":
            path = message.get("executable") or message["filenames"][0]
            paths[message["target"]["name"]] = pathlib.Path(path)
    return paths


def stripped(path):
    """Returns a file of a development build without debug information, which is most of it."""
    if shutil.which("strip") is None:
        return path.read_bytes()
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "-o", file.name, str(path)], check=True)
        return pathlib.Path(file.name).read_bytes()


def information():
    """Returns the name of the folder of metadata."""
    return f"{NAME}-{VERSION}.dist-info"


def metadata(wheel_tag):
    """Returns the files of metadata, except the RECORD."""
    fields = [("Metadata-Version", "2.4"), ("Name", NAME), ("Version", VERSION), ("Summary", PROJECT["description"])]
    fields += [("Author", author["name"]) for author in PROJECT["authors"]]
    fields += [("License-Expression", PROJECT["license"]), *(("License-File", name) for name in LICENSES)]
    fields += [("Classifier", name) for name in PROJECT["classifiers"]]
    fields += [("Requires-Python", PROJECT["requires-python"])]
    for extra, packages in PROJECT["optional-dependencies"].items():
        fields += [("Provides-Extra", extra), *(("Requires-Dist", f"{name}; extra == '{extra}'") for name in packages)]
    fields += [("Description-Content-Type", "text/markdown")]
    lines = "".join(f"{name}: {value}\n" for name, value in fields)
    scripts = "".join(f"{name}={function}\n" for name, function in PROJECT["scripts"].items())
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME} {VERSION}\nRoot-Is-Purelib: false\nTag: {wheel_tag}\n"
    texts = {"METADATA": f"{lines}\n{(HERE / PROJECT['readme']).read_text()}", "WHEEL": wheel}
    texts["entry_points.txt"] = f"[console_scripts]\n{scripts}"
    texts |= {f"licenses/{name}": (ROOT / name).read_text() for name in LICENSES}
    return {f"{information()}/{name}": text.encode() for name, text in texts.items()}


def write_wheel(folder, files, wheel_tag, level):
    """Writes a wheel, which is complete or absent. Its bytes depend only on the contents of the files."""
    path = pathlib.Path(folder) / f"{NAME}-{VERSION}-{wheel_tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = files | metadata(wheel_tag)
    record = f"{information()}/RECORD"
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            mode = 0o755 if data[:4] == b"\x7fELF" else 0o644
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(entry, data)
    part.replace(path)
    return path
