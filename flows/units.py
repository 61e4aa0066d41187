"""Units of work that runners hand out, as functions that the workers find by their names.

A unit is a training, or a list of items. It does the items in their order until ENOUGH_S seconds
have passed, and returns the number of items that are done, which is at least one.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

ENOUGH_S: Final = 20.0  # work of a unit: a task costs tens of milliseconds, and leaves traces
_TRAINING: Final = threading.Lock()  # torch's number of threads is one for the whole process


def _for_a_while(items: Sequence[Any]) -> Iterator[Any]:
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began >= ENOUGH_S:
            return


def record_parts(items: list[int], out: str, plan: str) -> dict[str, int]:
    """Record parts of a dataset that is being built."""
    from pipeline.building.shared_plan import record
    from policies.registry import behaviours

    made = [record(out, plan, part, behaviours) for part in _for_a_while(items)]
    return {
        "done": len(made),
        "rows": sum(entry.rows for entry in made),
        "bytes": sum(entry.bytes for entry in made),
    }


def command(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Run a command, such as a training. A process runs one at a time."""
    from flows.commands import directly, find

    with _TRAINING:
        return directly(find(name).Request(**parameters))
