"""Functions and classes that do something when a pickle is loaded: each leaves the file that it is told.

A pickle names them as `armed.<name>`, so that a loader has to import this module.
"""


def leave(marker):
    open(marker, "w").close()


def function(name, result=None):
    """A function of this name, so that each call can be told from the others by what it calls."""

    def called(marker):
        leave(marker)
        return result

    called.__name__ = called.__qualname__ = name
    return globals().setdefault(name, called)


for name in ["hooks", "of_parameter", "popped", "popped_to_mark", "overwritten", "tagged"]:
    function(name)
function("factory", list)


class Built:
    """Set off by BUILD."""

    def __init__(self, marker):
        self.marker = marker

    def __setstate__(self, state):
        leave(state["marker"])


class Made:
    """Set off by NEWOBJ."""

    def __new__(cls, marker):
        leave(marker)
        return super().__new__(cls)

    def __getnewargs__(self):
        return (self.armed,)


class MadeWithKeywords:
    """Set off by NEWOBJ_EX."""

    def __new__(cls, *, marker):
        leave(marker)
        return super().__new__(cls)

    def __getnewargs_ex__(self):
        return (), {"marker": self.armed}


class Filled:
    """Set off by APPENDS and SETITEMS."""

    def append(self, marker):
        leave(marker)

    def extend(self, markers):
        for marker in markers:
            leave(marker)

    def __setitem__(self, key, marker):
        leave(marker)


def unarmed(kind, marker):
    """An object that is set off when it is loaded, not when it is made here."""
    value = object.__new__(kind)
    value.armed = marker
    return value


def set_state(value, marker):
    """What the sixth part of `__reduce__` may name."""
    leave(marker)
