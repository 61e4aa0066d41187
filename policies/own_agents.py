"""Agents of the user's own, given as `--agent path/to/file.py:name` or `--agent module:name`.

The object is an Agent or an OnlineAgent. It is registered under its own name, as a plug-in would do
it: folders, recipes and checkpoints hold that name, and never the reference.
"""

import re
from typing import Any, Final

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.plugins import Registry, Source, is_reference, load, source_of
from hindcast.policies.offline import AGENTS, Agent
from hindcast.policies.online import ONLINE_AGENTS, OnlineAgent

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")  # a part of names of folders
_SOURCES: Final[dict[str, Source]] = {}  # of the agents that were registered here, by name


def agent_name(given: str) -> str:
    """Return the name of an offline agent, which is registered if it is given by a reference.

    `given` must not come from a dataset or a checkpoint, since its code is run. Raises InputError
    if the reference leads to no such agent, or if another agent has its name.
    """
    return _registered(given, AGENTS, Agent, "an Agent, which learns from a dataset")


def online_agent_name(given: str) -> str:
    """Return the name of an online agent, as `agent_name` does for offline ones."""
    return _registered(given, ONLINE_AGENTS, OnlineAgent, "an OnlineAgent, which plays")


def learns_online(reference: str) -> bool:
    """Return whether a reference leads to an online agent."""
    return is_reference(reference) and isinstance(load(source_of(reference)), OnlineAgent)


def reference_of(name: str) -> str:
    """Return what another process needs to find an agent: its reference, or its name."""
    return _SOURCES[name].reference if name in _SOURCES else name


def whole_reference(given: str) -> str:
    """Return a reference with the absolute path of its file; other names unchanged."""
    return source_of(given).reference if is_reference(given) else given


def source_sha256(name: str) -> str | None:
    """Return the digest of the source file of an agent given by a reference, or None."""
    return _SOURCES[name].sha256 if name in _SOURCES else None


def _registered(given: str, known: Registry[Any], kind: type[Any], expected: str) -> str:
    if not is_reference(given):
        return given
    source = source_of(given)
    found = load(source)
    if not isinstance(found, kind):
        raise InputError(
            f"{given}: is {_shown(found)}, expected {expected} (hindcast.{kind.__name__})"
        )
    name = str(found.name)
    if not _NAME.fullmatch(name):
        raise RecipeError(
            f"{given}: the agent is called {name[:100]!r}, expected letters, digits, _ and -"
        )
    if name not in known:
        known.register(name, found)
    elif known[name] != found:
        raise InputError(
            f"{given}: another agent is called {name!r}; give yours another name than that"
        )
    _SOURCES[name] = source
    return name


def _shown(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
