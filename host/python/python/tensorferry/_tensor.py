"""Tensors of an opened input, and parts of them. Data is read when a framework's array is created."""

from __future__ import annotations

from . import _dtypes
from ._errors import UnsupportedError, unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from . import _native

    class _Model(Protocol):
        """The part of `Model` that a tensor uses."""

        _mapped: bool

_CPU = (1, 0)


class Tensor:
    """A lazy tensor: its name, dtype and shape are known, and each access reads its data from the file.

    `tensor[2:5, ::-2, 0]` is a lazy tensor too. An index may contain integers, slices and `...`.

    Example:
        >>> weight = tensorferry.open("model.safetensors")["embed.weight"]
        >>> weight
        <tensorferry.Tensor 'embed.weight': F32 [2, 3]>
        >>> weight[:, 1].numpy()
        array([1., 4.], dtype=float32)
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
        # The indices selected in each dimension of the input's tensor, and the dimensions that no integer index removed.
        self._axes = axes if axes is not None else tuple(range(length) for length in raw.shape)
        self._dims = dims if dims is not None else tuple(range(len(raw.shape)))

    @property
    def name(self) -> str:
        """The name in the input."""
        return self._raw.name

    @property
    def dtype(self) -> str:
        """The name of the dtype: `F32`, `BF16`, `I64`, or one defined by a format, such as `Q4_0`."""
        return self._raw.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension, in elements."""
        return tuple(len(self._axes[dim]) for dim in self._dims)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._dims)

    @property
    def nbytes(self) -> int:
        """The length of `bytes()`."""
        part = self._part()
        return self._raw.nbytes if part is None else self._raw.part_len(part)

    @property
    def attributes(self) -> dict[str, object]:
        """Other properties stored in the input, such as a unit or the names of the axes."""
        return self._raw.attributes()

    def __repr__(self) -> str:
        return f"<tensorferry.Tensor {self.name!r}: {self.dtype} {list(self.shape)}>"

    def __len__(self) -> int:
        if not self._dims:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    # Without this method, `for row in tensor` would index until an index fails, with one file
    # access per row.
    __iter__ = None

    def __bool__(self) -> bool:
        raise TypeError("the truth value of a lazy tensor is ambiguous: use its numpy(), or compare it with None")

    def __eq__(self, other: object) -> bool:
        raise TypeError("lazy tensors cannot be compared: compare their numpy(), or use diff() for whole files")

    # Tensors are hashed by identity, as in torch.
    __hash__ = object.__hash__

    def __getitem__(self, index: object) -> Tensor:
        """Returns a part of the tensor, which is also lazy.

        Raises:
            IndexError: The index is out of range.
        """
        axes, dims = _narrowed(self, index)
        return Tensor(self._model, self._raw, axes, dims)

    def bytes(self) -> bytes:
        """Reads the data: row-major and little-endian. Each string is an eight-byte length followed by UTF-8."""
        return self._raw.read(self._part())

    def numpy(self):  # type: ignore[no-untyped-def]
        """Reads the data into a new numpy array.

        Dtypes that numpy lacks come from `ml_dtypes`, where 4-bit and 2-bit numbers take one byte each. Strings
        become an object array of `bytes`.

        Raises:
            UnsupportedError: numpy cannot represent the dtype, for example 6-bit numbers or the blocks of a format.
        """
        return self._array()[0]

    def _array(self):  # type: ignore[no-untyped-def]
        """Returns a numpy array, and whether it is a mapping of the file."""
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
        """Reads the data into a new torch tensor.

        Args:
            device: The device of the new tensor. By default it is on the CPU.

        Raises:
            UnsupportedError: torch lacks the dtype. For 4-bit and 2-bit numbers, `bytes()` returns the stored bytes
                and `numpy()` the numbers.
        """
        array, target = self._torch_memory(device)
        if target is not None:
            self._raw.read_into(target, self._part())
        return array if device is None else array.to(device)

    def jax(self):  # type: ignore[no-untyped-def]
        """Reads the data into a new jax array.

        Raises:
            UnsupportedError: jax lacks the dtype. This includes 64-bit numbers unless `jax_enable_x64` is set, because
                jax would silently truncate them to 32 bits.
        """
        import jax

        if self.dtype in _TAKEN_BY_JAX:
            return jax.dlpack.from_dlpack(self)
        if self.dtype in _WIDE and not jax.config.jax_enable_x64:
            hint = 'jax.config.update("jax_enable_x64", True) makes it keep them'
            raise unsupported(f"jax would truncate {self.dtype} to 32 bits", self.name, hint)
        array = self.numpy()
        if array.dtype.kind == "O":
            raise self._without("jax")
        return jax.numpy.asarray(array)

    def __array__(self, dtype=None, copy=None):  # type: ignore[no-untyped-def]
        """Implements `numpy.asarray(tensor)` and `numpy.array(tensor)`.

        The result is a copy, except that `asarray` of a model opened with `mmap=True` may return a mapping.
        `copy=False` requires a mapping: a whole tensor in its own dtype.
        """
        import numpy

        refused = ValueError("the data is in a file, so an array of it must be a copy")
        if copy is False and not self._model._mapped:
            raise refused
        array, is_mapped = self._array()
        dtype = array.dtype if dtype is None else numpy.dtype(dtype)
        if copy is False and not (is_mapped and dtype == array.dtype):
            raise refused
        return array.astype(dtype, copy=bool(copy) and is_mapped)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):  # type: ignore[no-untyped-def]
        """Implements `from_dlpack(tensor)` of any framework: a new copy in memory aligned to 64 bytes."""
        if stream is not None:
            raise BufferError("the data is in CPU memory, which has no streams")
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise BufferError(f"the data is in CPU memory, not on device {dl_device}")
        if copy is False:
            raise BufferError("the data is in a file, so an array of it must be a copy")
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
        # If a dimension has only one index, its step does not matter.
        steps = [axis.step if length > 1 else 1 for axis, length in zip(self._axes, lengths)]
        return [axis.start if axis else 0 for axis in self._axes], lengths, steps

    def _mapping(self) -> _native.Mapping | None:
        """Maps the bytes in the file, if the model was opened with `mmap=True` and the file stores them unchanged."""
        if not self._model._mapped or self._part() is not None or not self.nbytes:
            return None
        try:
            return self._raw.map()
        except UnsupportedError:
            return None

    def _torch_memory(self, device: object):  # type: ignore[no-untyped-def]
        """Returns a torch tensor and the memory to fill, or `None` in place of the memory if there is nothing to fill."""
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
        hint = "bytes() returns the stored bytes"
        if framework == "PyTorch" and self.dtype in _dtypes.PACKED:
            hint += ", numpy() the numbers"
        elif self.dtype not in _dtypes.TABLE:
            hint += ", convert(..., steps=['dequantize:f16']) writes a file of floats"
        return unsupported(f"{framework} has no dtype {self.dtype}", self.name, hint)


# jax imports these arrays through DLPack, without another copy.
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
    """Returns the axes and dimensions that an index selects. The tensor may itself be a part of another tensor."""
    given = index if isinstance(index, tuple) else (index,)
    ellipses = [place for place, entry in enumerate(given) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can contain only one ellipsis")
    for at in ellipses:
        missing = max(len(tensor._dims) - len(given) + 1, 0)
        given = (*given[:at], *(slice(None),) * missing, *given[at + 1 :])
    if len(given) > len(tensor._dims):
        raise IndexError(f"too many indices: {len(given)} for the {len(tensor._dims)} dimensions of {tensor.name!r}")
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
            # Arrays have `__index__` too, but most of them cannot be used as an index.
            number = None
        if number is None:
            raise IndexError(f"a lazy tensor accepts integers, slices and ..., not {type(entry).__name__}")
        if not -length <= number < length:
            raise IndexError(f"index {number} is out of range for dimension {place} of {tensor.name!r}, of length {length}")
        # A negative index counts from the end. `[number : number + 1]` would be empty for -1.
        axes[dim] = axes[dim][number % length :][:1]
    return tuple(axes), tuple(dims)
