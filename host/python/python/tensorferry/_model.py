"""An opened model: a mapping of names to tensors."""

from __future__ import annotations

# Importing `collections.abc` would take another millisecond.
from _collections_abc import Mapping

from ._results import losses, statistics
from ._tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _native
    from ._results import Loss, Statistics

class Model(Mapping):  # type: ignore[type-arg]
    """A read-only mapping of names to lazy tensors, in the order of the input.

    Leaving a `with` block closes the model. Arrays that were read from it stay valid; its lazy tensors can no longer
    be read.

    Example:
        >>> model = tensorferry.open("model.safetensors")
        >>> list(model)
        ['bias', 'embed.weight']
    """

    def __init__(self, raw: _native.Model, again: tuple[Callable[..., Model], tuple[object, ...]], mapped: bool) -> None:
        self._raw = raw
        # A function and its arguments that open the input again, for example in another process.
        self._again = again
        self._mapped = mapped
        self._tensors = {tensor.name: tensor for tensor in raw.tensors()}

    def __getitem__(self, name: str) -> Tensor:
        """Returns the tensor with this name.

        Raises:
            TensorNotFoundError: There is no such tensor. This exception is also a `KeyError`.
        """
        found = self._tensors.get(name)
        return Tensor(self, found if found is not None else self._raw.tensor(name))

    def get(self, key: str, default=None, /):  # type: ignore[no-untyped-def]
        """Returns the tensor with this name, or `default`."""
        return self[key] if key in self._tensors else default

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<tensorferry.Model {self.path!r}: {len(self)} tensors{state}>"

    # Models are compared by identity, as files are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self._again

    @property
    def path(self) -> str:
        """The path that was opened."""
        return str(self._again[1][0])

    @property
    def format(self) -> str:
        """The id of the input format."""
        return self._raw.format()

    @property
    def metadata(self) -> dict[str, object]:
        """The key-value metadata. Values keep their types."""
        return self._raw.metadata()

    @property
    def state(self) -> object:
        """The input's tree of mappings, lists, numbers, strings and lazy tensors, or `None` if the format has no tree.

        Objects that only the format can interpret are `StateObject`s. Their code is never run.
        """
        return self._raw.state(self.__getitem__)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The content of the input that this model leaves out, such as optimizer state."""
        return losses(self._raw.losses())

    @property
    def globals(self) -> list[str]:
        """Functions and classes that a pickle in the input would have called."""
        return self._raw.globals()

    @property
    def ties(self) -> dict[str, str]:
        """Maps the name of each tied tensor to the name of the tensor that it repeats."""
        return dict(self._raw.ties())

    @property
    def closed(self) -> bool:
        """Whether the model is closed."""
        return self._raw.is_closed()

    def close(self) -> None:
        """Closes the files."""
        self._raw.close()

    def check_unchanged(self) -> None:
        """Checks that the input files are unchanged.

        Raises:
            TransientError: A file has changed since it was opened.
        """
        self._raw.check_unchanged()

    def stats(self, glob: str | None = None, histogram: bool = False) -> dict[str, Statistics]:
        """Computes statistics of the values: range, mean, standard deviation, and counts of zeros, NaN, infinities and more.

        All threads read the tensors, and no whole tensor is kept in memory. Quantized weights are
        dequantized and reported under the name of the dequantized weight.

        Args:
            glob: A pattern of tensor names. By default all tensors are read.
            histogram: If true, a histogram with 64 bins, as returned by `numpy.histogram`, is computed in a second pass.

        Returns:
            A `Statistics` for each tensor, by name.

        Example:
            >>> tensorferry.open("model.safetensors").stats("embed.*")["embed.weight"].max
            5.0
        """
        return {name: statistics(found) for name, found in self._raw.stats(glob, histogram)}

    def numpy(self):  # type: ignore[no-untyped-def]
        """Reads all tensors into numpy arrays, on all threads, and returns them by name. See `Tensor.numpy`.

        Example:
            >>> tensorferry.open("model.safetensors").numpy()["bias"]
            array([0., 0.], dtype=float32)
        """
        import numpy

        def room(tensor):  # type: ignore[no-untyped-def]
            from ._dtypes import PACKED, numpy_dtype

            dtype = None if tensor.dtype in ("STR", *PACKED) or self._mapped else numpy_dtype(tensor.dtype)
            if dtype is None:
                return tensor.numpy(), None
            array = numpy.empty(tensor.shape, dtype=dtype)
            return array, array.reshape(-1).view(numpy.uint8) if array.size else None

        return self._load(room)

    def torch(self, device: object = None):  # type: ignore[no-untyped-def]
        """Reads all tensors into torch tensors, on all threads, and returns them by name. See `Tensor.torch`."""
        loaded = self._load(lambda tensor: tensor._torch_memory(device))
        return loaded if device is None else {name: array.to(device) for name, array in loaded.items()}

    def jax(self):  # type: ignore[no-untyped-def]
        """Reads all tensors into jax arrays and returns them by name. See `Tensor.jax`."""
        loaded = {name: tensor.jax() for name, tensor in self.items()}
        self.check_unchanged()
        return loaded

    def _load(self, room):  # type: ignore[no-untyped-def]
        """Allocates arrays by calling `room`, and fills them. Tied tensors share one array."""
        loaded, waiting = {}, []
        ties = self.ties
        for name, tensor in self.items():
            if name in ties and ties[name] in loaded:
                loaded[name] = loaded[ties[name]]
                continue
            loaded[name], memory = room(tensor)
            if memory is not None:
                waiting.append((name, memory))
        self._raw.read_many(waiting)
        self.check_unchanged()
        return loaded
