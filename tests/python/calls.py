"""Values whose pickles call functions, in every way that a pickle can call a function.

Each call creates a marker file, which shows that the call was made.
"""

import collections
import functools
import importlib
import operator
import os
import pickle
import runpy
import subprocess
import _compat_pickle

import torch
import torch.jit._pickle

import armed


class Call:
    """A value that is pickled as the call of a function.

    `rest` contains the items after the function and its arguments in the result of `__reduce__`."""

    def __init__(self, function, *arguments, rest=()):
        self.reduced = (function, arguments, *rest)

    def __call__(self):
        raise TypeError("this is never called; pickle only checks that it is callable")

    def __reduce__(self):
        return self.reduced


class Raw:
    """A value that is pickled by hand, by `write(pickler)`."""

    def __init__(self, write):
        self.write = write


class Pickler(pickle._Pickler):
    """Names the storages of tensors as torch.save does, even in protocol 0. The instruction for a persistent id on the stack
    belongs to protocol 1, but every loader accepts the instructions of all protocols.

    `storages` collects them by key."""

    def __init__(self, file, protocol, storages, legacy=False):
        super().__init__(file, protocol)
        self.storages, self.legacy = storages, legacy

    def persistent_id(self, value):
        if not isinstance(value, torch.storage.TypedStorage):
            return None
        kind = getattr(torch, value._pickle_storage_type())
        key = str(self.storages.setdefault(value.data_ptr(), (len(self.storages), value))[0])
        view = (None,) if self.legacy else ()
        return ("storage", kind, key, "cpu", value._size(), *view)

    def save_pers(self, pid):
        self.save(pid, save_persistent_id=False)
        self.write(pickle.BINPERSID)

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Raw):
            return value.write(self)
        return super().save(value, save_persistent_id)


def written(*parts):
    """Writes bytes unchanged into the pickle, and pickles other values as usual."""

    def write(pickler):
        for part in parts:
            pickler.write(part) if isinstance(part, bytes) else pickler.save(part)

    return Raw(write)


def code(marker):
    return f"open({marker!r}, 'w').close()"


def spelled(function, protocol):
    """Returns the name that `ferry` prints for a function or class that a pickle names."""
    name = function.__qualname__
    module = pickle.whichmodule(function, name)
    if protocol < 3:
        # The pickle contains the Python 2 name, which is mapped to the current name.
        module, name = _compat_pickle.REVERSE_NAME_MAPPING.get((module, name), (module, name))
        module = _compat_pickle.REVERSE_IMPORT_MAPPING.get(module, module)
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    return f"{module}.{name}"


def calls(mark, protocol, hub, storages=True):
    """Returns each value whose pickle makes a call, by name, with the function or class that the pickle names.

    When a loader has loaded all these values, all markers exist.

    `mark(name)` returns the path of the marker. `hub` is a folder with a `hubconf.py`. Without
    `storages`, the pickles contain no storages."""

    def command(name):
        return f"touch {mark(name)}"

    def run(name):
        return Call(eval, code(mark(name)))

    def told(name):
        return Call(getattr(armed, name), mark("as_factory" if name == "factory" else name))

    def mapped(name):
        return Call(map, os.system, [command(name)])

    def tensor(name):
        return Call(eval, f"{code(mark(name))} or __import__('torch').zeros(2)")

    no_hooks = collections.OrderedDict()
    found = {
        # These values call functions, and functions that other functions return.
        "system": (Call(os.system, command("system")), os.system),
        "exec": (Call(exec, code(mark("exec"))), exec),
        "eval": (Call(eval, code(mark("eval"))), eval),
        "open": (Call(open, mark("open"), "w"), open),
        "subprocess": (Call(subprocess.check_call, ["touch", mark("subprocess")]), subprocess.check_call),
        "torch_save": (Call(torch.save, 1, mark("torch_save")), torch.save),
        "hub_local": (Call(torch.hub._load_local, hub, "entry", mark("hub_local")), torch.hub._load_local),
        "hub": (Call(functools.partial(torch.hub.load, hub, "entry", mark("hub"), source="local")), functools.partial),
        "partial": (Call(functools.partial(functools.partial(os.system), command("partial"))), functools.partial),
        "getattr": (
            Call(Call(getattr, Call(importlib.import_module, "os"), "system"), command("getattr")),
            getattr,
        ),
        "method": (
            Call(Call(operator.methodcaller, "system", command("method")), Call(importlib.import_module, "os")),
            operator.methodcaller,
        ),
        "script": (Call(runpy.run_path, f"{hub}/hubconf.py", {"leave": mark("script")}), runpy.run_path),
        "pickle": (Call(pickle.loads, pickle.dumps(Call(exec, code(mark("pickle"))), 2)), pickle.loads),
        # These calls fill known containers from an unknown iterator.
        "in_list": (Call(list, mapped("in_list")), map),
        "in_set": (Call(set, mapped("in_set")), map),
        "in_frozenset": (Call(frozenset, mapped("in_frozenset")), map),
        "in_bytes": (Call(bytearray, mapped("in_bytes")), map),
        "in_deque": (Call(collections.deque, mapped("in_deque")), map),
        "in_counter": (Call(collections.Counter, mapped("in_counter")), map),
        "in_size": (Call(torch.Size, mapped("in_size")), map),
        "as_factory": (Call(collections.defaultdict, told("factory")), armed.factory),
        "as_key": ({run("as_key"): 1}, eval),
        # These are functions of torch that have calls among their arguments. One of the functions
        # calls its argument.
        "from_type": (
            Call(
                torch._tensor._rebuild_from_type_v2, eval, torch.Tensor,
                (f"{code(mark('from_type'))} or __import__('torch').zeros(2)",), {},
            ),
            eval,
        ),
        "parameter": (Call(torch._utils._rebuild_parameter, tensor("parameter"), True, no_hooks), eval),
        "tagged": (Call(torch.jit._pickle.restore_type_tag, 1, told("tagged")), armed.tagged),
        # The results of these calls are not in the object that the pickle creates.
        "popped": (written(told("popped"), pickle.POP, None), armed.popped),
        "popped_to_mark": (written(pickle.MARK, told("popped_to_mark"), pickle.POP_MARK, None), armed.popped_to_mark),
        "overwritten": (
            written(pickle.EMPTY_DICT + pickle.MARK, "k", told("overwritten"), "k", None, pickle.SETITEMS),
            armed.overwritten,
        ),
        "doubled": (written(run("doubled"), pickle.DUP + pickle.TUPLE2), eval),
        "inst": (written(pickle.MARK, command("inst"), pickle.INST + b"posix\nsystem\n"), os.system),
        "obj": (written(pickle.MARK, os.system, command("obj"), pickle.OBJ), os.system),
        # These are objects of classes whose own methods are called.
        "setter": (
            Call(armed.Filled, rest=(mark("setter"), None, None, armed.set_state)), armed.set_state,
        ),
        "items": (Call(armed.Filled, rest=(None, None, iter([(1, mark("items"))]))), armed.Filled),
        "appended": (Call(armed.Filled, rest=(None, iter([mark("appended")]))), armed.Filled),
        "state": (armed.Built(mark("state")), armed.Built),
    }
    if storages:
        weight, with_state = torch.zeros(3), torch._utils._rebuild_parameter_with_state
        view = (weight.storage(), 0, (3,), (1,), False)
        found["hooks"] = (Call(torch._utils._rebuild_tensor_v2, *view, told("hooks")), armed.hooks)
        state = {"a": told("of_parameter")}
        found["of_parameter"] = (Call(with_state, weight, True, no_hooks, state), armed.of_parameter)
    if protocol >= 2:
        found["new"] = (armed.unarmed(armed.Made, mark("new")), armed.Made)
    if protocol >= 4:
        found["new_with_keywords"] = (
            armed.unarmed(armed.MadeWithKeywords, mark("new_with_keywords")), armed.MadeWithKeywords,
        )
    return found


# The code of `posix.system` in the extension registry. The loader must have registered this code.
EXTENSION = 77


def needed(mark, protocol):
    """Returns values that depend on the result of a call, and calls of functions that a pickle may not name.

    The unknown values are the size of a tensor, the class of a storage, and a persistent id.
    Loading stops at each of these values, so each needs a separate file.
    """

    def run(name, value="None"):
        return Call(eval, f"{code(mark(name))} or {value}")

    weight = torch.zeros(3)
    rebuild, hooks = torch._utils._rebuild_tensor_v2, collections.OrderedDict()
    state = {"marker": mark("built_twice")}
    found = {
        "extension": written(pickle.EXT1 + bytes([EXTENSION]), (f"touch {mark('extension')}",), pickle.REDUCE),
        "persistent_id": Call(
            rebuild, written(run("persistent_id"), pickle.BINPERSID), 0, (3,), (1,), False, hooks
        ),
        "size": Call(rebuild, weight.storage(), 0, run("size", "(3,)"), (1,), False, hooks),
        "offset": Call(rebuild, weight.storage(), run("offset", "0"), (3,), (1,), False, hooks),
        "storage": Call(rebuild, run("storage"), 0, (3,), (1,), False, hooks),
        "storage_class": Call(
            rebuild,
            written(("storage", run("storage_class", "__import__('torch').FloatStorage"), "0", "cpu", 3), pickle.BINPERSID),
            0, (3,), (1,), False, hooks,
        ),
        "built_twice": written(Call(armed.Built, ""), state, pickle.BUILD, state, pickle.BUILD),
        "no_instruction": written(run("no_instruction"), pickle.POP + b"\xff"),
    }
    if protocol >= 4:
        found["stack_global"] = written(run("stack_global", "'os'"), "getpid", pickle.STACK_GLOBAL)
    if protocol >= 5:
        found["buffer"] = written(run("buffer"), pickle.POP + pickle.NEXT_BUFFER)
    return found
