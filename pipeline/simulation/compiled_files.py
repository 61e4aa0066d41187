"""Names of the files in which numba keeps compiled functions, and of the symbols in them.

numba compiles a function again if the file of its source has changed. The compiled code also
contains functions that it calls and constants that it names, which may come from other files. If
only those files have changed, numba loads the old compiled code. The names of the files therefore
contain a digest of everything that a function is compiled from::

    deferrable._knapsack-5d0c5cbf1ad1e3f2-71.py311.nbi

The values in a closure are part of the name too. numba numbers the files of all closures of one
function by an index, without a lock. If two processes compile different closures at the same time,
each may later load the other's code.

numba ends the name of a symbol with the number of the function in its process, counted from 1. A
file holds a copy of all functions that its function calls, numba's own among them. Two files of two
processes may therefore give one name to two functions: numba's sort and its argsort are closures
with the same name and types. A process that loads both files calls the first one for both names
(numba issue 10486), which returns a wrong result or crashes. `number_at_random` prevents this.
"""

import glob
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import randbits
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np
from numba.core.bytecode import FunctionIdentity

_LIBRARIES: Final = frozenset({"math", "numba", "numpy"})  # numba has its own code for them
_CONSTANT: Final = (bool, int, float, str, np.generic)
_SYMBOLS: Final = "symbols numbered at random"  # in digests: files of before are compiled again
_NUMBERS: Final = iter(lambda: randbits(64), None)


def number_at_random() -> None:
    """Let numba number the functions of this process by random 64-bit numbers, not from 1."""
    numbered: Any = FunctionIdentity
    numbered._unique_ids = _NUMBERS  # noqa: SLF001 - numba has no public way


def name_of(function: FunctionType) -> str:
    """Return the qualified name of a function with the values of its closure."""
    return function.__qualname__ + "".join(map(_in_a_name, function.__closure__ or ()))


def digest_of(function: FunctionType, signature: Any = None) -> str:
    """Return a digest of all code, constants and fields of tuples that a function is compiled from.

    The signature is the compiled one, a list of several, or None. The options of the compiled
    functions that it calls are part of the digest: such a function may be inlined.
    """
    found, texts = [function], [_SYMBOLS, _text_of(signature)]
    for one in found:
        text, called = _own_code(one)
        texts.append(text)
        found += [inner for inner in called if inner not in found]
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def remove_others(folder: str, function: FunctionType, name: str, digest: str) -> None:
    """Remove the files of a function of this name that have another digest, or none."""
    stem = f"{Path(function.__code__.co_filename).stem}.{name}".replace("<", "").replace(">", "")
    for file in Path(folder).glob(f"{glob.escape(stem)}-*.nb?"):
        if not file.name.startswith(f"{stem}-{digest}-"):
            file.unlink(missing_ok=True)


def _in_a_name(cell: Any) -> str:
    """Return the value of a closure's variable as part of the name of a file."""
    value = cell.cell_contents
    return "_" + re.sub(r"[^\w.+-]", "", str(getattr(value, "__name__", value)))[:60]


@cache
def _own_code(function: FunctionType) -> tuple[str, tuple[FunctionType, ...]]:
    """Return a function's code and constants as text, and the functions that it calls."""
    codes = [function.__code__]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    parts, called = [], []
    for code in codes:
        constants = [const for const in code.co_consts if not isinstance(const, CodeType)]
        parts.append(f"{code.co_code.hex()} {code.co_names} {constants}")
    for name, value in _named(function, codes).items():
        inner = getattr(value, "py_func", getattr(value, "_defn", value))  # compiled, or intrinsic
        parts.append(f"{name} {_text_of(getattr(value, 'nopython_signatures', ''))}")
        parts.append(_text_of(sorted(getattr(value, "targetoptions", {}).items())))
        if isinstance(inner, FunctionType):
            if inner.__module__.partition(".")[0] not in _LIBRARIES:
                called.append(inner)
        elif isinstance(value, _CONSTANT):
            parts.append(f"{name} {value!r}")
        elif isinstance(value, type) and issubclass(value, tuple):
            parts.append(f"{name} {getattr(value, '_fields', '')}")
        elif isinstance(value, np.ndarray):
            parts.append(f"{name} {value.dtype} {value.shape} {value.tobytes().hex()}")
    return "\n".join(parts), tuple(called)


def _text_of(kind: Any) -> str:
    """Return a compiled type, signature or list of them as text, with the fields of tuples."""
    if isinstance(kind, set):  # of an option; its order differs from process to process
        kind = sorted(kind)
    if isinstance(kind, list | tuple):
        return str([_text_of(one) for one in kind])
    if hasattr(kind, "args") and hasattr(kind, "return_type"):
        return f"{_text_of(kind.return_type)} {_text_of(kind.args)}"
    if hasattr(kind, "fields") and hasattr(kind, "types"):  # a named tuple
        return f"{kind} {kind.fields} {_text_of(kind.types)}"
    return str(kind)


def _named(function: FunctionType, codes: list[CodeType]) -> dict[str, Any]:
    """Return what the code of a function names: globals, members of modules, a closure's values."""
    found: dict[str, Any] = {}
    for code in codes:
        for name in code.co_names:
            value = function.__globals__.get(name)
            if not isinstance(value, ModuleType):
                found[name] = value
            elif value.__name__.partition(".")[0] not in _LIBRARIES:
                found |= {f"{name}.{n}": getattr(value, n, None) for n in code.co_names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return dict(leaf for name, value in found.items() for leaf in _leaves(name, value))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value, or those of all members of a tuple."""
    if not isinstance(value, tuple):
        yield name, value
        return
    yield name, str(getattr(value, "_fields", len(value)))
    for place, member in enumerate(value):
        yield from _leaves(f"{name}[{place}]", member)
