"""An opened input: its tensors by their names."""

from __future__ import annotations

# `collections.abc` takes a millisecond more.
from _collections_abc import Mapping

from ._results import losses, statistics
from ._tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import _native
    from ._results import Loss, Statistics

class Model(Mapping):  # type: ignore[type-arg]
    """A read-only mapping of names to lazy tensors, in the input's order.

    `with` closes it. Closed or not, arrays that were made of it are their own; a lazy tensor of a closed model
    cannot be read.
    """

    def __init__(self, raw: _native.Model, again: tuple[Callable[..., Model], tuple[object, ...]], mapped: bool) -> None:
        self._raw = raw
        # What opens it again, in another process say: a function and its arguments.
        self._again = again
        self._mapped = mapped
        self._tensors = {tensor.name: tensor for tensor in raw.tensors()}

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of this name. Raises `TensorNotFoundError`, which is a `KeyError`, if there is none."""
        found = self._tensors.get(name)
        return Tensor(self, found if found is not None else self._raw.tensor(name))

    def get(self, key: str, default=None, /):  # type: ignore[no-untyped-def]
        """The tensor of this name, or `default`."""
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

    # Two models are the same if they are one object, as files are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return self._again

    @property
    def path(self) -> str:
        """Where it was opened."""
        return str(self._again[1][0])

    @property
    def format(self) -> str:
        """The id of the format that it was read as."""
        return self._raw.format()

    @property
    def metadata(self) -> dict[str, object]:
        """The key-value metadata, each value with its type."""
        return self._raw.metadata()

    @property
    def state(self) -> object:
        """The tree of what the input holds, tensors as lazy ones: mappings, lists, numbers, texts; `None` where the
        format has no tree. What only the format itself understands is a `StateObject`; nothing of it was run."""
        return self._raw.state(self.__getitem__)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the input holds and this does not show: the optimizer's state, where the model was taken."""
        return losses(self._raw.losses())

    @property
    def globals(self) -> list[str]:
        """Functions and classes that a pickle in the input would have called."""
        return self._raw.globals()

    @property
    def ties(self) -> dict[str, str]:
        """For each tensor that is another one under a second name: that one's name."""
        return dict(self._raw.ties())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._raw.is_closed()

    def close(self) -> None:
        """Lets go of the files."""
        self._raw.close()

    def check_unchanged(self) -> None:
        """Raises `TransientError` if a file of the input has changed since it was opened."""
        self._raw.check_unchanged()

    def stats(self, glob: str | None = None, histogram: bool = False) -> dict[str, Statistics]:
        """What the values of each tensor come to, or of those whose names `glob` matches, read on all threads and
        never held as a whole: range, mean and deviation of what is finite, zeros, NaN, infinities and more; see
        `Statistics`. With `histogram` also 64 bins as `numpy.histogram` has them, in a second pass. Of quantised
        weights it is what they stand for, under the name that the weight has then."""
        return {name: statistics(found) for name, found in self._raw.stats(glob, histogram)}

    def numpy(self):  # type: ignore[no-untyped-def]
        """All tensors as arrays of numpy, by name, read together on all threads. See `Tensor.numpy`."""
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
        """All tensors as those of torch, by name, read together on all threads. See `Tensor.torch`."""
        loaded = self._load(lambda tensor: tensor._torch_memory(device))
        return loaded if device is None else {name: array.to(device) for name, array in loaded.items()}

    def jax(self):  # type: ignore[no-untyped-def]
        """All tensors as arrays of jax, by name. See `Tensor.jax`."""
        loaded = {name: tensor.jax() for name, tensor in self.items()}
        self.check_unchanged()
        return loaded

    def _load(self, room):  # type: ignore[no-untyped-def]
        """Has the frameworks' memory filled. Tensors that are one in the input become one, as in the input."""
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
