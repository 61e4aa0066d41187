"""Registries of named things, which modules outside this repository can extend.

    EXPORTS: Final = Registry("exports", {"csv": Export(...), ...})      comes with Hindcast
    EXPORTS.register("mine", Export(...))                                added by a plug-in

A plug-in is a Python module that calls `register` when it is imported. A registry imports plug-ins
only to look up an unknown name or to list all names. It finds them in two places:

1. the environment variable HINDCAST_PLUGINS: names of modules or paths of .py files, separated by
   commas;
2. the entry points of installed packages. In the group `hindcast.exports`, for example, the name of
   an entry point is the name of the export and its value is the module that registers the export:

    [project.entry-points."hindcast.exports"]
    mine = "my_package.my_export"

Text from a dataset, a checkpoint or a recipe is never imported. It is only compared with the names
in a registry and the names of entry points.
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

if TYPE_CHECKING:  # importing it takes as long as importing the whole command line
    from importlib.metadata import EntryPoint

T = TypeVar("T")
VARIABLE: Final = "HINDCAST_PLUGINS"
_IMPORTING: Final = threading.RLock()  # lets one thread import a plug-in, the others wait


class Registry(Mapping[str, T], Generic[T]):
    """Named things: built in, registered at run time, or provided by plug-ins.

    Args:
        plural: The name of the registry. The entry points of its plug-ins are in the group
            `hindcast.<plural>`.
        known: The things that come with Hindcast, by name.
    """

    def __init__(self, plural: str, known: Mapping[str, T]) -> None:
        self._group = f"hindcast.{plural}"
        self._known = dict(known)

    def register(self, name: str, thing: T) -> None:
        """Add a thing under a name. Raises InputError if the name is taken."""
        if name in self._known:
            raise InputError(f"{self._group}: the name {name!r} is taken; choose another name")
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
        """Import the module of an entry point, which must register the name of that point."""
        of = f"entry point {entry.name} = {entry.value!r} of {self._group}"
        with _IMPORTING:
            _or_input_error(entry.load, of)
        if entry.name not in self._known:
            raise InputError(f"{of}: the module does not register {entry.name!r}")


@functools.cache
def _entry_points(group: str) -> "Mapping[str, EntryPoint]":
    """Return the entry points of a group by name, without importing any of them."""
    from importlib import metadata

    return {entry.name: entry for entry in metadata.entry_points(group=group)}


def _import_plugins() -> None:
    """Import the modules and files of HINDCAST_PLUGINS that are not imported yet."""
    for plugin in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        load = _import_file if plugin.endswith(".py") else importlib.import_module
        with _IMPORTING:
            _or_input_error(functools.partial(load, plugin), f"{VARIABLE}: {plugin}")


def _import_file(name: str) -> None:
    """Import a .py file under the name of the file, unless a module was loaded from it before."""
    path = Path(name).resolve()
    modules = list(sys.modules.values())
    if any(getattr(module, "__dict__", {}).get("__file__") == str(path) for module in modules):
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or path.stem in sys.modules:
        raise InputError(
            f"{VARIABLE}: {name} cannot be imported, because another module is called "
            f"{path.stem!r}; rename the file"
        )
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _or_input_error(load: Callable[[], object], of: str) -> None:
    """Call `load`, and turn any exception into an InputError that names the plug-in."""
    try:
        load()
    except InputError:
        raise
    except Exception as error:  # a plug-in can raise anything during its import
        raise InputError(f"{of} cannot be imported ({type(error).__name__}: {error})") from error
