"""Functions and classes for tests with malicious pickles. When a pickle is loaded, each creates the file that is passed to it.

A pickle names them as `armed.<name>`, so a loader must import this module.
"""


def leave(marker):
    open(marker, "w").close()


def function(name, result=None):
    """Returns a function with this name, so that each call in a pickle names a different function."""

    def called(marker):
        leave(marker)
        return result

    called.__name__ = called.__qualname__ = name
    return globals().setdefault(name, called)


for name in ["hooks", "of_parameter", "popped", "popped_to_mark", "overwritten", "tagged"]:
    function(name)
function("factory", list)


class Built:
    """Triggered by BUILD."""

    def __init__(self, marker):
        self.marker = marker

    def __setstate__(self, state):
        leave(state["marker"])


class Made:
    """Triggered by NEWOBJ."""

    def __new__(cls, marker):
        leave(marker)
        return super().__new__(cls)

    def __getnewargs__(self):
        return (self.armed,)


class MadeWithKeywords:
    """Triggered by NEWOBJ_EX."""

    def __new__(cls, *, marker):
        leave(marker)
        return super().__new__(cls)

    def __getnewargs_ex__(self):
        return (), {"marker": self.armed}


class Filled:
    """Triggered by APPENDS and SETITEMS."""

    def append(self, marker):
        leave(marker)

    def extend(self, markers):
        for marker in markers:
            leave(marker)

    def __setitem__(self, key, marker):
        leave(marker)


def unarmed(kind, marker):
    """Returns an object that is triggered when it is loaded, and not when this script creates it."""
    value = object.__new__(kind)
    value.armed = marker
    return value


def set_state(value, marker):
    """A function for the sixth item of the result of `__reduce__`."""
    leave(marker)
