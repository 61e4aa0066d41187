"""Recording the parts of a plan in other processes, on this machine or on others.

    OUT/.building/shared.json    the recipe, the place of its episodes in the dataset, and versions

The process that builds the dataset writes this file and hands out numbers of parts. A process that
records parts restores the plan from the file, the workload and the checkpoints in OUT, so it needs
nothing else than the folder, which may be the URL of a store. It writes every part to its final
place; a part that is there already is not recorded again. So a part may be handed out more than
once, and several processes may record the same part at the same time.
"""

import functools
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building import parts as recording
from hindcast.pipeline.dataset.building.parts import Plan
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.checkpoints import inside_places
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.location import is_remote, location
from hindcast.pipeline.storage.run_files import BUILDING
from hindcast.pipeline.workloads.folder import load_workload

NAME: Final = "shared.json"
Behaviours = Callable[[Recipe], Mapping[str, Behaviour]]


def share(plan: Plan) -> dict[str, str]:
    """Write the plan where other processes find it; return the arguments that name it."""
    out = plan.out if is_remote(plan.out) else plan.out.absolute()
    path = out / BUILDING / NAME
    files.write_json(
        path,
        {
            "recipe": plan.recipe.to_dict(),
            "id": plan.recipe.id,
            "first_part": plan.first_part,
            "first_episode": plan.first_episode,
            "taken": [[*key, number] for key, number in plan.taken.items()],
            "workload": files.sha256_file(out / mf.WORKLOAD / mf.NAME),
            "versions": mf.versions(),
        },
    )
    given = {"out": str(out), "plan": files.sha256_file(path)}
    if plan.recipe.code:  # from this process, since nothing that a folder names is imported
        given["code"] = json.dumps(dict(plan.recipe.code), sort_keys=True)
    return given


def record(
    out: str, plan: str, part: int, behaviours: Behaviours, code: str = "{}"
) -> mf.FileEntry:
    """Return the entry of a part of a shared plan, which is recorded unless it is there.

    `out`, `plan` and `code` are those of `share`. Raises DatasetError if the folder is not there,
    holds another plan by now, or was begun with other package versions.
    """
    return recording.record_part(_find(out, plan, behaviours, code), part)


def _find(out: str, digest: str, behaviours: Behaviours, code: str) -> Plan:
    """Return the plan with this digest; the folder may hold another one by now."""
    path = location(out) / BUILDING / NAME
    if not path.exists():
        raise DatasetError(
            f"{path}: no such file on {socket.gethostname()}; the workers need the same folder "
            "under the same path, or the URL of a store as --out"
        )
    if files.sha256_file(path) != digest:
        raise DatasetError(f"{path}: the folder holds another build by now")
    return _restore(out, digest, behaviours, code)


@functools.lru_cache(maxsize=2)
def _restore(out: str, digest: str, behaviours: Behaviours, code: str) -> Plan:
    del digest  # another plan in the same folder is another entry of the cache
    folder = location(out)
    path = folder / BUILDING / NAME
    shared = files.read_json(path)
    if (own := mf.versions()) != shared["versions"]:
        differ = [n for n, v in shared["versions"].items() if own.get(n) != v]
        raise DatasetError(
            f"{out}: the build was begun with other versions of {', '.join(differ)} than those on "
            f"{socket.gethostname()}; install the same versions on all machines"
        )
    recipe = parse_recipe(shared["recipe"], str(path)).under(shared["id"])
    recipe = replace(recipe, places=inside_places(recipe, folder), code=json.loads(code))
    plan = recording.make_plan(
        recipe, behaviours(recipe), load_workload(folder / mf.WORKLOAD), folder
    )
    return replace(
        plan,
        first_part=shared["first_part"],
        first_episode=shared["first_episode"],
        taken={(name, window): number for name, window, number in shared["taken"]},
    )
