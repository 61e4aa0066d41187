"""Registries of named things, which modules outside this repository can add to.

    EXPORTS: Final = Registry("exports", {"csv": Export(...), ...})      what comes with Hindcast
    EXPORTS.register("mine", Export(...))                                what a plug-in adds

A plug-in is a Python module that registers what it has when it is imported. It is imported only
when a name is asked for that is not known yet, or all names are, and it is found in two places:

1. the environment variable HINDCAST_PLUGINS: names of modules or paths of .py files, separated by
   commas;
2. the entry points of installed packages: in the group `hindcast.exports`, say, the name is that
   of the export and the value is the module which registers it.

    [project.entry-points."hindcast.exports"]
    mine = "my_package.my_export"

What a dataset, a checkpoint or a recipe says is never imported: its words are only compared with
the names in a registry and those of the entry points.
"""

import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from pipeline.errors import InputError

if TYPE_CHECKING:  # its import takes as long as that of the whole command line
    from importlib.metadata import EntryPoint

T = TypeVar("T")
VARIABLE: Final = "HINDCAST_PLUGINS"
_IMPORTING: Final = threading.RLock()  # a file is imported once, whichever thread asks first


class Registry(Mapping[str, T], Generic[T]):
    """Things by name: those that come with Hindcast, registered ones, and those of plug-ins.

    Args:
        plural: The name of the registry, as in the entry point group `hindcast.<plural>`.
        known: What comes with Hindcast.
    """

    def __init__(self, plural: str, known: Mapping[str, T]) -> None:
        self._group = f"hindcast.{plural}"
        self._known = dict(known)

    def register(self, name: str, thing: T) -> None:
        """Add a thing; InputError where the name is taken."""
        if name in self._known:
            raise InputError(f"{self._group}: {name!r} is there already; choose another name")
        self._known[name] = thing

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            _import_plugins()
        if name not in self._known and name in (found := _entry_points(self._group)):
            self._load(found[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        _import_plugins()
        return iter(dict.fromkeys([*self._known, *_entry_points(self._group)]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _load(self, entry: "EntryPoint") -> None:
        of = f"entry point {entry.name} = {entry.value!r} of {self._group}"
        with _IMPORTING:
            _or_input_error(entry.load, of)
        if entry.name not in self._known:
            raise InputError(f"{of}: the module registers no {entry.name!r}")


@functools.cache
def _entry_points(group: str) -> "Mapping[str, EntryPoint]":
    """Return the entry points of installed packages by name, without importing any of them."""
    from importlib import metadata

    return {entry.name: entry for entry in metadata.entry_points(group=group)}


def _import_plugins() -> None:
    """Import the modules and files of HINDCAST_PLUGINS that are not imported yet."""
    for plugin in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        load = _import_file if plugin.endswith(".py") else importlib.import_module
        with _IMPORTING:
            _or_input_error(functools.partial(load, plugin), f"{VARIABLE}: {plugin}")


def _import_file(name: str) -> None:
    """Import a .py file under the name of the file, unless some module was loaded from it."""
    path = Path(name).resolve()
    modules = list(sys.modules.values())
    if any(getattr(module, "__dict__", {}).get("__file__") == str(path) for module in modules):
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or path.stem in sys.modules:
        raise InputError(f"{VARIABLE}: {name}: another module is called {path.stem!r}; rename it")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _or_input_error(load: Callable[[], object], of: str) -> None:
    """Call `load`; whatever it raises becomes an InputError that names the plug-in."""
    try:
        load()
    except InputError:
        raise
    except Exception as error:  # a plug-in can raise anything while it is imported
        raise InputError(f"{of}: cannot be imported ({type(error).__name__}: {error})") from error
