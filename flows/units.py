"""Units of work that runners hand out, as functions that the workers find by their names.

A unit is a training, or a list of items. It does the items in their order until ENOUGH_S seconds
have passed, and returns the number of items that are done, which is at least one.
"""

import functools
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError, VerificationFailed
from hindcast.pipeline.storage.location import location

ENOUGH_S: Final = 20.0  # work of a unit: a task costs tens of milliseconds, and leaves traces
_TRAINING: Final = threading.Lock()  # torch's number of threads is one for the whole process


def _for_a_while(items: Sequence[Any]) -> Iterator[Any]:
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began >= ENOUGH_S:
            return


def record_parts(items: list[int], out: str, plan: str, code: str = "{}") -> dict[str, int]:
    """Record parts of a dataset that is being built."""
    from hindcast.pipeline.dataset.building.shared_plan import record
    from hindcast.policies.registry import behaviours

    made = [record(out, plan, part, behaviours, code) for part in _for_a_while(items)]
    return {
        "done": len(made),
        "rows": sum(entry.rows for entry in made),
        "bytes": sum(entry.bytes for entry in made),
    }


def replay_parts(items: list[int], folder: str, manifest: str, quick: bool) -> dict[str, Any]:
    """Replay parts of a dataset, up to the first one that differs from the simulator."""
    from hindcast.pipeline.dataset.verification.replayed import Replayed
    from hindcast.pipeline.dataset.verification.shared_parts import replay
    from hindcast.policies.registry import recorded_behaviours

    found, done, fault = Replayed(), 0, ""
    for part in _for_a_while(items):
        done += 1
        try:
            found += replay(folder, manifest, part, recorded_behaviours, quick=quick)
        except VerificationFailed as error:
            fault = str(error)
            break
    return {"done": done, "fault": fault, **vars(found)}


def play_runs(items: list[tuple[int, int]], evaluation: str) -> dict[str, int]:
    """Play runs of policies and write their scores; `evaluation` is a JSON object that names them.

    Raises DatasetError if the recipe or a policy is another one here.
    """
    from hindcast.pipeline.evaluation.evaluate import play_item

    job, policies = _evaluation(evaluation)
    done = 0
    for number, start in _for_a_while(items):
        play_item(job, policies[number], start)
        done += 1
    return {"done": done}


@functools.lru_cache(maxsize=2)
def _evaluation(text: str) -> tuple[Any, Any]:
    """Return the job and the entrants of an evaluation."""
    from hindcast.pipeline.evaluation.evaluate import claim_of, make_job
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.entrants import entrants

    given = json.loads(text)
    recipe = load_recipe(given["recipe"], tuple(given["overrides"]))
    policies = entrants(recipe, given["policies"])
    if claim_of(recipe, policies) != given["claim"]:
        raise DatasetError(
            f"{given['recipe']}: the recipe or a policy of it is another one on "
            f"{socket.gethostname()}; the workers need the same files under the same paths"
        )
    return make_job(recipe, given["split"], location(given["out"])), policies


def command(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Run a command by the name of its module, such as a training; a process runs one at a time."""
    from hindcast.flows.commands import directly, find

    with _TRAINING:
        return directly(find(name.replace("_", "-")).Request(**parameters))
