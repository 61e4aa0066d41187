"""Ledger of looks: which agents have been scored on which test windows on this machine.

    <cache>/looks.jsonl   one line per evaluation of test windows (`hindcast.pipeline.traces.cache`)

Of several agents, the one that is best on test windows looks better than it is, so a report says
how many were scored there. The ledger knows what this user did on this machine since the cache was
made, no more. Rules are not counted. HINDCAST_CACHE= keeps no ledger.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.files import sha256_text
from hindcast.pipeline.storage.guards import parse_json, require_file
from hindcast.pipeline.traces.cache import cache_folder

LEDGER: Final = "looks.jsonl"
_LARGEST: Final = 64 << 20
_WINDOWS: Final = ("scenario", "config", "trace", "seed")


class Look(NamedTuple):
    """One evaluation: its time in UTC as ISO 8601, and the digests of the agents it scored."""

    time: str
    agents: tuple[str, ...]


def windows_key(recipe: Recipe, split: str) -> str:
    """Return a digest of the windows of a split: recipes of the same windows share it."""
    table = recipe.to_dict()
    told = {name: table[name] for name in _WINDOWS} | {"windows": recipe.windows(split)}
    return sha256_text(json.dumps(told, sort_keys=True))


def looks(recipe: Recipe, split: str) -> list[Look]:
    """Return the earlier evaluations on the same windows, oldest first; damaged lines are left."""
    path = _path()
    if path is None or not path.exists():
        return []
    key = windows_key(recipe, split)
    return [Look(time, agents) for time, windows, agents in _lines(path) if windows == key]


def others(recipe: Recipe, split: str, agents: Sequence[str]) -> int:
    """Return how many agents beside these have been scored on the same windows."""
    return len({each for look in looks(recipe, split) for each in look.agents} - set(agents))


def counted(split: str) -> bool:
    """Return whether looks at a split are counted: test windows only."""
    return split in {"test", "all"} and _path() is not None


def add_look(recipe: Recipe, split: str, agents: Sequence[str]) -> None:
    """Append a line for an evaluation that begins; a cache that cannot be written is no error."""
    path = _path()
    if path is None:
        return
    line = {"time": now(), "windows": windows_key(recipe, split), "recipe": recipe.id,
            "split": split, "agents": list(agents)}  # fmt: skip
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:  # one write: lines of others stay whole
            file.write(json.dumps(line) + "\n")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lines(path: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    try:
        require_file(path, _LARGEST)
        text = path.read_text(encoding="utf-8", errors="replace")
    except (DatasetError, OSError):
        return
    for line in text.splitlines():
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            value = parse_json(line)
            yield str(value["time"]), str(value["windows"]), tuple(map(str, value["agents"]))


def _path() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder.with_name(LEDGER)
