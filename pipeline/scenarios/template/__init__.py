"""A small scenario as a package of its own: the files that `hindcast new-scenario` writes.

They stand beside this file, each under its name with `.jinja` behind it. The folder `package` gets
the name of the scenario.
"""

import builtins
import importlib.util
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.scenarios import SCENARIOS, WITHOUT_SIMULATOR

_HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST: Final = 40  # characters, so that the lines of the files keep their length
_SUFFIX: Final = ".jinja"


def check_name(name: str) -> None:
    """Raise InputError, with the nearest valid name, for a name that a scenario cannot have."""
    if why := _refusal(name):
        words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        near = "_".join(words)[:_LONGEST].rstrip("_")
        near = near if near[:1].isalpha() else f"scenario_{near}".rstrip("_")
        near = next(n for n in (near, f"my_{near}", "my_scenario") if not _refusal(n))
        raise InputError(f"new-scenario: the name {name!r} {why}; did you mean {near!r}?")


def _refusal(name: str) -> str:
    """Return the reason against a name, "" if there is none."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        return f"is none, expected a-z, 0-9 and _, beginning with a letter, at most {_LONGEST}"
    if name in SCENARIOS or name in WITHOUT_SIMULATOR:
        return "is taken by a scenario"
    if keyword.iskeyword(name) or hasattr(builtins, name):
        return "has a meaning in Python"
    found = importlib.util.find_spec(name)
    return "is taken by a module of Python" if found and found.origin else ""


def files_of(name: str) -> Mapping[str, str]:
    """Return the text of every file of a new scenario, by its path in the folder."""
    found = sorted(_HERE.rglob(f"*{_SUFFIX}"))
    places = {p: p.relative_to(_HERE).as_posix().removesuffix(_SUFFIX) for p in found}
    return {
        re.sub(r"^package/", f"{name}/", place).replace("NAME", name): render(path, name=name)
        for path, place in places.items()
    }
