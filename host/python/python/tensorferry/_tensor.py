"""A tensor of an opened input, or a part of one. Its data is read when a framework's array is made of it."""

from __future__ import annotations

from . import _dtypes
from ._errors import UnsupportedError, unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from . import _native

    class _Model(Protocol):
        """The model that it is a tensor of."""

        _mapped: bool

_CPU = (1, 0)


class Tensor:
    """A lazy tensor: its name, dtype and shape are known, and its data is read each time that it is asked for.

    `tensor[2:5, ::-2, 0]` is lazy too: integers, slices and `...` are what it takes.
    """

    __slots__ = ("_model", "_raw", "_axes", "_dims")

    def __init__(
        self,
        model: _Model,
        raw: _native.Tensor,
        axes: tuple[range, ...] | None = None,
        dims: tuple[int, ...] | None = None,
    ) -> None:
        self._model = model
        self._raw = raw
        # The indices that are taken of each dimension of the input's tensor, and which of these no integer took.
        self._axes = axes if axes is not None else tuple(range(length) for length in raw.shape)
        self._dims = dims if dims is not None else tuple(range(len(raw.shape)))

    @property
    def name(self) -> str:
        """Its name in the input."""
        return self._raw.name

    @property
    def dtype(self) -> str:
        """The dtype's name: `F32`, `BF16`, `I64`; also of one that a format brought along, `Q4_0`."""
        return self._raw.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, in elements."""
        return tuple(len(self._axes[dim]) for dim in self._dims)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._dims)

    @property
    def nbytes(self) -> int:
        """The length of `bytes()`."""
        part = self._part()
        return self._raw.nbytes if part is None else self._raw.part_len(part)

    @property
    def attributes(self) -> dict[str, object]:
        """What else the input says of it: a unit, names of its axes."""
        return self._raw.attributes()

    def __repr__(self) -> str:
        return f"<tensorferry.Tensor {self.name!r}: {self.dtype} {list(self.shape)}>"

    def __len__(self) -> int:
        if not self._dims:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    # Without this, `for row in tensor` would read until an index fails, a file access a row.
    __iter__ = None

    def __bool__(self) -> bool:
        raise TypeError("a lazy tensor is neither true nor false: ask its numpy(), or whether it is None")

    def __eq__(self, other: object) -> bool:
        raise TypeError("lazy tensors are not compared: their numpy() is, diff() compares files")

    # By which object it is, as for arrays of torch.
    __hash__ = object.__hash__

    def __getitem__(self, index: object) -> Tensor:
        """A part of it, still lazy. Raises `IndexError` for one that is not there."""
        axes, dims = _narrowed(self, index)
        return Tensor(self._model, self._raw, axes, dims)

    def bytes(self) -> bytes:
        """Its data: row-major, little-endian. A string is its length in eight bytes, then its UTF-8."""
        return self._raw.read(self._part())

    def numpy(self):  # type: ignore[no-untyped-def]
        """A new array of numpy. Dtypes that numpy has not are those of `ml_dtypes`, in which numbers of 4 and 2 bits
        take a byte each; strings are objects, of `bytes`.

        Raises `UnsupportedError` for a dtype that has no array: of 6 bits, blocks of a format's own.
        """
        return self._array()[0]

    def _array(self):  # type: ignore[no-untyped-def]
        """An array of numpy, and whether it is a mapping of the file."""
        import numpy

        if self.dtype == "STR":
            return _strings(self.bytes(), self.shape), False
        if self.dtype in _dtypes.PACKED:
            array = _dtypes.unpacked(self.bytes(), self.dtype)
            if array is None:
                raise self._without("NumPy")
            return array.reshape(self.shape), False
        dtype = _dtypes.numpy_dtype(self.dtype)
        if dtype is None:
            raise self._without("NumPy")
        mapping = self._mapping()
        if mapping is not None:
            return numpy.frombuffer(mapping, dtype=dtype).reshape(self.shape), True
        array = numpy.empty(self.shape, dtype=dtype)
        if array.size:
            self._raw.read_into(array.reshape(-1).view(numpy.uint8), self._part())
        return array, False

    def torch(self, device: object = None):  # type: ignore[no-untyped-def]
        """A new tensor of torch, on a device.

        Raises `UnsupportedError` for a dtype that torch has not, or not with this shape: of numbers of 4 and 2 bits,
        `bytes()` gives what is stored, and `numpy()` the numbers.
        """
        array, target = self._torch_memory(device)
        if target is not None:
            self._raw.read_into(target, self._part())
        return array if device is None else array.to(device)

    def jax(self):  # type: ignore[no-untyped-def]
        """A new array of jax.

        Raises `UnsupportedError` for a dtype that jax has not; numbers of 64 bits, which jax would make 32 bits of
        without a word, are among these unless its `jax_enable_x64` is set.
        """
        import jax

        if self.dtype in _TAKEN_BY_JAX:
            return jax.dlpack.from_dlpack(self)
        if self.dtype in _WIDE and not jax.config.jax_enable_x64:
            hint = 'jax.config.update("jax_enable_x64", True) makes it keep them'
            raise unsupported(f"jax would make 32 bits of each number of {self.dtype}", self.name, hint)
        array = self.numpy()
        if array.dtype.kind == "O":
            raise self._without("jax")
        return jax.numpy.asarray(array)

    def __array__(self, dtype=None, copy=None):  # type: ignore[no-untyped-def]
        """For `numpy.asarray(tensor)`, and `numpy.array(tensor)`, which is a copy whatever the model was opened with. A
        mapping is no copy: `copy=False` asks for one, of a whole tensor in its own dtype."""
        import numpy

        refused = ValueError("the data lies in a file: an array of it is a copy")
        if copy is False and not self._model._mapped:
            raise refused
        array, is_mapped = self._array()
        dtype = array.dtype if dtype is None else numpy.dtype(dtype)
        if copy is False and not (is_mapped and dtype == array.dtype):
            raise refused
        return array.astype(dtype, copy=bool(copy) and is_mapped)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):  # type: ignore[no-untyped-def]
        """For `from_dlpack(tensor)` of any framework: a new copy in memory that is aligned to 64 bytes."""
        if stream is not None:
            raise BufferError("the data is in the processor's memory, which has no streams")
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise BufferError(f"the data is in the processor's memory, not on device {dl_device}")
        if copy is False:
            raise BufferError("the data lies in a file: an array of it is a copy")
        versioned = max_version is not None and max_version[0] >= 1
        return self._raw.dlpack(self._part(), list(self.shape), versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return _again, (self._model, self.name, self._axes, self._dims)

    def _part(self) -> _native._Part:
        if all(axis == range(length) for axis, length in zip(self._axes, self._raw.shape)):
            return None
        lengths = [len(axis) for axis in self._axes]
        # Of one index, the next one is of no interest.
        steps = [axis.step if length > 1 else 1 for axis, length in zip(self._axes, lengths)]
        return [axis.start if axis else 0 for axis in self._axes], lengths, steps

    def _mapping(self) -> _native.Mapping | None:
        """Its bytes in their file, if that was asked for and they lie there as they are."""
        if not self._model._mapped or self._part() is not None or not self.nbytes:
            return None
        try:
            return self._raw.map()
        except UnsupportedError:
            return None

    def _torch_memory(self, device: object):  # type: ignore[no-untyped-def]
        """A tensor of torch, and the memory of it that is to be filled; `None` where there is nothing to fill."""
        import torch

        dtype = _dtypes.torch_dtype(self.dtype)
        if dtype is None:
            raise self._without("PyTorch")
        mapping = self._mapping()
        if mapping is not None:
            flat = torch.frombuffer(mapping, dtype=torch.uint8)
            return flat.view(dtype).reshape(self.shape), None
        pinned = device is not None and torch.device(device).type == "cuda"  # type: ignore[call-overload]
        array = torch.empty(self.shape, dtype=dtype, pin_memory=pinned)
        return array, array.reshape(-1).view(torch.uint8) if array.numel() else None

    def _without(self, framework: str) -> Exception:
        hint = "bytes() gives what is stored"
        if framework == "PyTorch" and self.dtype in _dtypes.PACKED:
            hint += ", numpy() the numbers"
        elif self.dtype not in _dtypes.TABLE:
            hint += ", convert(..., steps=['dequantize:f16']) a file of floats"
        return unsupported(f"{framework} has no dtype {self.dtype}", self.name, hint)


# By `DLPack`, without another copy.
_TAKEN_BY_JAX = frozenset(("U8", "I8", "U16", "I16", "U32", "I32", "F16", "BF16", "F32"))
_WIDE = frozenset(("U64", "I64", "F64", "C128"))


def _again(model, name, axes, dims):  # type: ignore[no-untyped-def]
    return Tensor(model, model[name]._raw, axes, dims)


def _strings(data: bytes, shape: tuple[int, ...]):  # type: ignore[no-untyped-def]
    import numpy

    flat, at = [], 0
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "little")
        flat.append(data[at + 8 : end])
        at = end
    array = numpy.empty(len(flat), dtype=object)
    array[:] = flat
    return array.reshape(shape)


def _narrowed(tensor: Tensor, index: object) -> tuple[tuple[range, ...], tuple[int, ...]]:
    """Axes and dimensions of a part. `tensor` may be a part itself: an index is of what is left of it."""
    given = index if isinstance(index, tuple) else (index,)
    ellipses = [place for place, entry in enumerate(given) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index has one ellipsis at most")
    for at in ellipses:
        missing = max(len(tensor._dims) - len(given) + 1, 0)
        given = (*given[:at], *(slice(None),) * missing, *given[at + 1 :])
    if len(given) > len(tensor._dims):
        raise IndexError(f"{len(given)} indices for {len(tensor._dims)} dimensions of {tensor.name!r}")
    axes, dims = list(tensor._axes), []
    for place, dim in enumerate(tensor._dims):
        entry = given[place] if place < len(given) else slice(None)
        length = len(axes[dim])
        if isinstance(entry, slice):
            axes[dim] = axes[dim][entry]
            dims.append(dim)
            continue
        try:
            number = None if isinstance(entry, bool) else entry.__index__()
        except (AttributeError, TypeError):
            # Arrays have the method, and are none.
            number = None
        if number is None:
            raise IndexError(f"a lazy tensor takes integers, slices and ..., not {type(entry).__name__}")
        if not -length <= number < length:
            raise IndexError(f"index {number} of dimension {place} of {tensor.name!r}, which has {length}")
        # The same for one from the end, which has no index after it.
        axes[dim] = axes[dim][number % length :][:1]
    return tuple(axes), tuple(dims)
