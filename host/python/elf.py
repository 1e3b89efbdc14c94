"""Reads and changes 64-bit little-endian ELF files.

Their tables are described in https://refspecs.linuxfoundation.org/elf/elf.pdf.
"""

# The libraries of glibc. libgcc_s is not one of them, and is missing on some systems.
GLIBC_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"}
DYNAMIC_LINKERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def faults(name, data, newest):
    """Returns why an ELF file would not load on a system that has only glibc of version `newest`."""
    libraries, versions = needs(data)
    found = [f"{name} needs {library}" for library in sorted(libraries - GLIBC_LIBRARIES - DYNAMIC_LINKERS)]
    return found + [f"{name} needs GLIBC_{'.'.join(map(str, v))}" for v in sorted(versions) if v > newest]


def with_weak_python(data):
    """Returns a Python module with weak references to Python, so that a program can load it without Python.

    The symbols stay unresolved there, and resolve as usual inside Python.
    """
    data = bytearray(data)
    number = numbers(data)
    headers = [number(40, 8) + index * number(58, 2) for index in range(number(60, 2))]
    (symbols,) = [header for header in headers if number(header + 4, 4) == 11]
    strings = number(headers[number(symbols + 40, 4)] + 24, 8)
    start, length = number(symbols + 24, 8), number(symbols + 32, 8)
    weak = 0
    for at in range(start, start + length, 24):
        name = strings + number(at, 4)
        is_undefined, is_global = number(at + 6, 2) == 0, data[at + 4] >> 4 == 1
        if is_undefined and is_global and data[name : name + 3].lstrip(b"_").startswith(b"Py"):
            data[at + 4] = 2 << 4 | data[at + 4] & 15
            weak += 1
    if not weak:
        raise SystemExit("error: the module has no undefined Python symbols")
    return bytes(data)


def needs(data):
    """Returns the libraries and the versions of glibc symbols that an ELF file needs."""
    number = numbers(data)

    def text(at):
        return data[at : data.index(b"\0", at)].decode()

    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("error: a program or library is not a 64-bit little-endian ELF file")
    headers, size, count = number(32, 8), number(54, 2), number(56, 2)
    segments = [headers + index * size for index in range(count)]
    loads = [(number(s + 16, 8), number(s + 8, 8), number(s + 32, 8)) for s in segments if number(s, 4) == 1]

    def place(address):
        return next(address - start + at for start, at, length in loads if start <= address < start + length)

    entries = []
    for segment in segments:
        if number(segment, 4) == 2:
            at, length = number(segment + 8, 8), number(segment + 32, 8)
            entries = [(number(entry, 8), number(entry + 8, 8)) for entry in range(at, at + length, 16)]
    tags = dict(entries)
    if 5 not in tags:
        return set(), set()
    strings = place(tags[5])
    libraries = {text(strings + value) for tag, value in entries if tag == 1}
    versions = set()
    at = place(tags[0x6FFFFFFE]) if 0x6FFFFFFE in tags else None
    while at is not None:
        auxiliary, following = at + number(at + 8, 4), number(at + 12, 4)
        for _ in range(number(at + 2, 2)):
            name = text(strings + number(auxiliary + 8, 4))
            if name.startswith("GLIBC_") and name[6:7].isdigit():
                versions.add(tuple(map(int, name[6:].split("."))))
            auxiliary += number(auxiliary + 12, 4)
        at = at + following if following else None
    return libraries, versions


def numbers(data):
    """Returns a function that reads a little-endian number at an offset."""
    return lambda at, size: int.from_bytes(data[at : at + size], "little")
