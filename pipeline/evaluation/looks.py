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
from hindcast.pipeline.recipes.problem import problem_key
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.files import parse_json, require_file
from hindcast.pipeline.traces.cache import cache_folder

LEDGER: Final = "looks.jsonl"
_LARGEST: Final = 64 << 20


class Look(NamedTuple):
    """One evaluation of test windows.

    Attributes:
        time: Time in UTC as ISO 8601.
        problem: Digest of the problem, to which the numbers of windows belong.
        windows: First and last window of each split that was played.
        agents: Digests of the agents that were scored.
    """

    time: str
    problem: str
    windows: tuple[tuple[int, int], ...]
    agents: tuple[str, ...]


def looks(recipe: Recipe, split: str) -> list[Look] | None:
    """Return the earlier evaluations that played some of the same windows, oldest first.

    None if looks are not counted: on other windows than those of the test, and without a ledger
    that can be read. Damaged lines are left out.
    """
    path = _path()
    if split not in {"test", "all"} or path is None:
        return None
    try:
        found = list(_lines(path)) if path.exists() else []
    except (DatasetError, OSError):
        return None
    problem, ours = problem_key(recipe), _ends(recipe, split)
    return [
        look for look in found if look.problem == problem
        and any(a <= last and first <= b for a, b in ours for first, last in look.windows)
    ]  # fmt: skip


def others(recipe: Recipe, split: str, agents: Sequence[str]) -> int | None:
    """Return how many agents beside these have been scored on some of the same windows.

    None if looks are not counted.
    """
    found = looks(recipe, split)
    return None if found is None else len({d for look in found for d in look.agents} - set(agents))


def add_look(recipe: Recipe, split: str, agents: Sequence[str]) -> None:
    """Append a line for an evaluation that begins; a cache that cannot be written is no error."""
    path = _path()
    if path is None:
        return
    line = {"time": now(), "problem": problem_key(recipe), "windows": _ends(recipe, split),
            "recipe": recipe.id, "split": split, "agents": list(agents)}  # fmt: skip
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:  # one write: lines of others stay whole
            file.write(json.dumps(line) + "\n")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _ends(recipe: Recipe, split: str) -> list[tuple[int, int]]:
    """Return the first and the last window of every split that is played."""
    parts = recipe.split.values() if split == "all" else [recipe.split[split]]
    return [(part.start, part.stop - 1) for part in parts]


def _lines(path: Path) -> Iterator[Look]:
    require_file(path, _LARGEST)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            value = parse_json(line)
            windows = tuple((int(first), int(last)) for first, last in value["windows"])
            agents = tuple(map(str, value["agents"]))
            yield Look(str(value["time"]), str(value["problem"]), windows, agents)


def _path() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder.with_name(LEDGER)
