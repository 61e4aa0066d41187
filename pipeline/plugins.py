"""Registries of named things, which modules outside this repository can extend.

    EXPORTS: Final = Registry("exports", {"csv": Export(...), ...})      comes with Hindcast
    EXPORTS.register("mine", Export(...))                                added by a plug-in

A registry asks plug-ins only to look up an unknown name or to list all names. It finds them in two
places:

1. the environment variable HINDCAST_PLUGINS: names of modules or paths of .py files, separated by
   commas, which call `register` when they are imported;
2. the entry points of installed packages. In the group `hindcast.exports`, for example, the name of
   an entry point is the name of the export and its value is the export, or a module that registers
   it:

    [project.entry-points."hindcast.exports"]
    mine = "my_package:MY_EXPORT"

Hindcast's own distribution has entry points too: those of the papers. A copy of the package may
lack the folder of the papers, and has none of their names then.

The user can also name a single object, such as a policy of their own, by a reference: `module:name`
or `path/to/file.py:name`, see `source_of` and `load`.

Text from a dataset or a checkpoint is never imported. It is only compared with the names in a
registry and the names of entry points. A reference is imported only if it was given on the command
line, in a recipe file or in a program.
"""

import functools
import importlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hindcast.pipeline.errors import InputError, UnknownName, did_you_mean, nearest

if TYPE_CHECKING:  # importing it takes as long as importing the whole command line
    from importlib.metadata import EntryPoint

T = TypeVar("T")
_WORD: Final = r"[A-Za-z_]\w*"
_DOTTED: Final = rf"{_WORD}(?:\.{_WORD})*"
_REFERENCE: Final = re.compile(rf"(?P<place>{_DOTTED}|[^:]*[^/:]\.py):(?P<name>{_DOTTED})")
_LABEL: Final = re.compile(rf"[\w.-]{{1,200}}:{_DOTTED}")
VARIABLE: Final = "HINDCAST_PLUGINS"
_ROOT: Final = Path(__file__).resolve().parents[1]  # the package `hindcast`
_PROJECT: Final = _ROOT / "pyproject.toml"  # of a checkout
_IMPORTING: Final = threading.RLock()  # lets one thread import a plug-in, the others wait


class Registry(Mapping[str, T], Generic[T]):
    """Named things: built in, registered at run time, or provided by plug-ins.

    Args:
        plural: The name of the registry. The entry points of its plug-ins are in the group
            `hindcast.<plural>`.
        known: The things that come with Hindcast, by name.
        kind: The class of the things, which an entry point must name.
    """

    def __init__(self, plural: str, known: Mapping[str, T], kind: type[Any] = object) -> None:
        self._kind = kind
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

    def installed(self) -> Iterator[tuple[str, T]]:
        """Yield what is known or in installed packages, without the modules of HINDCAST_PLUGINS."""
        for name in dict.fromkeys([*self._known, *_entry_points(self._group)]):
            yield name, self[name]

    def _load(self, entry: "EntryPoint") -> None:
        """Import the thing of an entry point, or the module that registers it."""
        of = f"entry point {entry.name} = {entry.value!r} of {self._group}"
        with _IMPORTING:
            thing = _or_input_error(entry.load, of)
            if entry.attr:
                if not isinstance(thing, self._kind):
                    raise InputError(f"{of}: expected {self._kind.__name__}, found {thing!r:.80}")
                self._known.setdefault(entry.name, thing)
        if entry.name not in self._known:
            raise InputError(f"{of}: the module does not register {entry.name!r}")


@functools.cache
def _entry_points(group: str) -> "Mapping[str, EntryPoint]":
    """Return the entry points of a group by name, without importing any of them."""
    if not _may_have(group):
        return {}
    from importlib import metadata

    strangers: list[EntryPoint] = []
    own: list[EntryPoint] = []
    for entry in metadata.entry_points(group=group):
        (own if entry.module.startswith("hindcast.") else strangers).append(entry)
    if (groups := _groups_of_checkout()) is not None:
        own = [
            metadata.EntryPoint(name=name, value=value, group=group)
            for name, value in groups.get(group, {}).items()
        ]
    found = {entry.name: entry for entry in [*filter(_is_here, own), *strangers]}
    return dict(sorted(found.items()))  # in a wheel as in a checkout


def _may_have(group: str) -> bool:
    """Return whether a package on Python's path may have entry points of a group.

    A search of the files of entry points takes a tenth of the time of importlib.metadata. The
    latter reads archives too, which are not opened here.
    """
    places = [Path(place) for place in dict.fromkeys(sys.path)]
    if any(place.is_file() for place in places):
        return True
    files = [_PROJECT]
    for place in places:
        with suppress(OSError), os.scandir(place) as entries:  # no folder, or one not to be read
            names = [e.name for e in entries if e.name.lower().endswith("-info")]
            files += [place / name / "entry_points.txt" for name in names]
    return any(group.encode() in _content(file) for file in files)


def _content(file: Path) -> bytes:
    """Return the content of a file, nothing if there is none that can be read."""
    with suppress(OSError):
        return file.read_bytes()
    return b""


@functools.cache
def _groups_of_checkout() -> Mapping[str, Mapping[str, str]] | None:
    """Return the entry points of a checkout, which may be newer than its installation."""
    import tomllib

    if not _PROJECT.is_file():
        return None
    groups: Mapping[str, Mapping[str, str]]
    groups = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["entry-points"]
    return groups


def _is_here(entry: "EntryPoint") -> bool:
    """Return whether this copy of Hindcast has the module of an entry point of its own."""
    path = _ROOT.joinpath(*entry.module.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def import_module(name: str) -> ModuleType:
    """Return the module that a registered name stands for.

    Raises InputError if that of a plug-in cannot be imported.
    """
    load = functools.partial(importlib.import_module, name)
    if name.startswith("hindcast."):
        return load()
    return _or_input_error(load, f"the module {name} of a plug-in")


def _import_plugins() -> None:
    """Import the modules and files of HINDCAST_PLUGINS that are not imported yet."""
    for plugin in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        of = f"{VARIABLE}: {plugin}"
        with _IMPORTING:
            _or_input_error(functools.partial(_import, plugin, of), of)


def _import(place: str, of: str) -> ModuleType:
    """Import a module by its name, or a .py file; `of` is what errors name."""
    return _import_file(place, of) if place.endswith(".py") else importlib.import_module(place)


def _import_file(name: str, of: str = "") -> ModuleType:
    """Return the module of a .py file, imported under the name of the file or loaded before."""
    path = Path(name).resolve()
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("__file__") == str(path):
            return module
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or path.stem in sys.modules:
        raise InputError(
            f"{of or name} cannot be imported, because another module is called {path.stem!r}; "
            "rename the file"
        )
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _or_input_error(load: Callable[[], T], of: str) -> T:
    """Return load(), and turn any exception into an InputError that names the plug-in."""
    try:
        return load()
    except InputError:
        raise
    except Exception as error:  # a plug-in can raise anything during its import
        raise InputError(f"{of} cannot be imported ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Source:
    """Source file of an object that the user named by a reference.

    Attributes:
        label: Short name without folders: `file:name` or `module:name`.
        name: Name of the object in its module, with dots for attributes of attributes.
        module: Dotted name of the module, or "" if the reference names a file.
        path: The file, as an absolute path.
        sha256: SHA-256 of the file.
    """

    label: str
    name: str
    module: str
    path: Path
    sha256: str

    @property
    def reference(self) -> str:
        """The reference with the absolute path of a file, for processes in other folders."""
        return f"{self.module or self.path}:{self.name}"


def is_reference(text: str) -> bool:
    """Return whether text has the form `module:name` or `path/to/file.py:name`."""
    return _REFERENCE.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Return whether text has the form of a `Source.label`."""
    return _LABEL.fullmatch(text) is not None


def source_of(reference: str, base: Path | None = None) -> Source:
    """Return the source of a reference, without running it.

    A relative path is searched in `base`, the folder of a recipe, and then in the working folder.
    For `package.module:name`, Python imports the package. Raises UnknownName with the nearest name
    if there is no such file or module.
    """
    import hashlib

    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise InputError(f"{reference}: expected module:name or path/to/file.py:name")
    place, name = found["place"], found["name"]
    is_file = place.endswith(".py")
    path = _file_of(reference, place, base) if is_file else _module_file(reference, place)
    stem = re.sub(r"[^\w.-]", "_", path.stem)
    return Source(
        label=f"{stem if is_file else place}:{name}",
        name=name,
        module="" if is_file else place,
        path=path,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def load(source: Source) -> Any:
    """Import the module of a source and return the object.

    Raises InputError if the import fails, and UnknownName with the nearest name if the module has
    no such object.
    """
    of = f"{source.module or source.path}:{source.name}"
    with _IMPORTING:
        place = source.module or str(source.path)
        module = _or_input_error(functools.partial(_import, place, of), of)
    thing: Any = module
    for word in source.name.split("."):
        if not hasattr(thing, word):
            names = [n for n in dir(thing) if not n.startswith("_")]
            raise UnknownName(f"{of}: there is no {word!r}; {did_you_mean(word, names)}")
        thing = getattr(thing, word)
    return thing


def _file_of(reference: str, place: str, base: Path | None) -> Path:
    """Return the file that a reference names."""
    given = Path(place).expanduser()
    path = given if base is None or not (base / given).is_file() else base / given
    if path.is_file():
        return path.resolve()
    there = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
    similar = nearest(path.name, there)
    hint = f"; did you mean {path.parent / similar}?" if similar else ""
    raise UnknownName(f"{reference}: there is no file {path.absolute()}{hint}")


def _module_file(reference: str, place: str) -> Path:
    """Return the source file of a module, which is found on Python's path."""
    try:
        found = importlib.util.find_spec(place)
    except Exception as error:  # finding a module imports its packages, which can raise anything
        if not isinstance(error, ModuleNotFoundError):
            raise InputError(
                f"{reference}: {place} cannot be imported ({type(error).__name__}: {error})"
            ) from error
        found = None
    if found is None:
        file = Path(*place.split(".")).with_suffix(".py")
        hint = (
            f"did you mean {file}:{reference.partition(':')[2]}?"
            if file.is_file()
            else f"give its file, as in path/to/{file}:NAME, or add its folder to PYTHONPATH"
        )
        raise UnknownName(f"{reference}: Python finds no module {place!r}; {hint}")
    if not (found.origin or "").endswith(".py"):
        raise InputError(f"{reference}: {place} has no source file; expected a module in Python")
    return Path(str(found.origin)).resolve()
