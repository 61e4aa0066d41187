"""Behaviours that are checkpoints: found, named by their content, copied into the dataset.

    policy = "agents/natural/checkpoints/step-000060"          as written: a path or URL, with a /
    policy = "policies/natural_gradient-seed0-step60-1f2e3d4c" as read, with sha256 = "1f2e3d4c..."

    DATASET/policies/<name>/checkpoint.json, weights.safetensors

`sha256` is that of checkpoint.json, which holds the SHA-256 of the weights. It enters the recipe's
digest; paths of the machine that built the dataset do not. With the copies, a dataset can be
verified and built again without any other file. This module only compares and copies files;
policies are loaded by hindcast.policies.networks.checkpoint, which never unpickles anything.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import DatasetError, InputError, RecipeError, did_you_mean
from hindcast.pipeline.recipes.own_code import check_code
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.storage.files import (
    make_folder,
    read_json,
    require_file,
    sha256_file,
    write_bytes,
)
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.run_files import DESCRIPTION, WEIGHTS

FOLDER: Final = "policies"
_LARGEST: Final = 4 << 30  # bytes of weights
_PINNED: Final = re.compile(rf"{FOLDER}/[A-Za-z0-9_-]{{1,200}}")
_AGENT: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FROM: Final[Mapping[str, Any]] = {
    "path": "", "temperature": 1.0, "epsilon": 0.0, "episodes": 1,
}  # fmt: skip


def check_behaviour(policy: str, sha256: str, where: str) -> None:
    """Raise RecipeError for a checkpoint or an own policy without the name of its content."""
    if ":" in policy and "/" not in policy:
        check_code(policy, sha256, where)
        return
    if ("/" in policy or "\\" in policy) != bool(sha256):
        raise RecipeError(
            f"{where}: the behaviour {policy!r} has sha256 {sha256!r}; expected a rule without a "
            "sha256, or a checkpoint (a path with /) with one"
        )
    if sha256 and not (_PINNED.fullmatch(policy) and _SHA256.fullmatch(sha256)):
        raise RecipeError(
            f"{where}: the behaviour {policy!r} has sha256 {sha256[:80]!r}; expected a checkpoint "
            f"{FOLDER}/NAME of the dataset itself, and 64 hexadecimal digits"
        )


def built_from(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a dataset folder; None if the folder is not a dataset.

    Raises DatasetError if something was appended or merged, since one recipe cannot build that, or
    if the folder also holds a recipe.toml: it would not be clear which recipe is meant, and who
    wrote it.
    """
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return None
    value = read_json(manifest)
    if not isinstance(value, dict) or not isinstance(value.get("recipe"), dict):
        return None
    if (folder / "recipe.toml").exists():
        raise DatasetError(
            f"{folder}: this dataset also holds a recipe.toml; give {folder / 'recipe.toml'} "
            "itself to use that file, which may name any place, or remove it to use the recipe in "
            "manifest.json"
        )
    for key, what in (("appended", "appended to"), ("merged", "made of several recipes")):
        if not value.get(key):
            continue
        raise DatasetError(
            f"{folder}: this dataset was {what}, so no single recipe builds it; load one of "
            "its recipes from a recipe.toml"
        )
    return value


def inside_places(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """Return the folders of a recipe's checkpoints in its dataset, each checked to be whole.

    Raises DatasetError for one that is missing, changed, or a symbolic link.
    """
    places = checkpoint_places(recipe, folder)
    for behaviour in recipe.behaviours:
        if behaviour.is_checkpoint:
            check_checkpoint(places[behaviour.policy], behaviour.sha256)
    return places


def pin_checkpoints(
    table: Mapping[str, Any], base: Path, where: str
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return a recipe's table with checkpoints named by content, and the folder of each.

    `behaviours_from` is replaced by its behaviours. Raises RecipeError for a checkpoint that is
    missing or damaged, or that differs from the sha256 in the recipe.
    """
    table, places = dict(table), {}
    if "behaviours_from" in table:
        table["behaviours"] = list(_expanded(table.pop("behaviours_from"), base, where))
    behaviours = table.get("behaviours")
    if not isinstance(behaviours, Sequence):
        return table, {}
    pinned = []
    for behaviour in behaviours:
        policy = behaviour.get("policy") if isinstance(behaviour, Mapping) else None
        if isinstance(policy, str) and "/" in policy:
            name, place, digest = _pin(policy, behaviour.get("sha256", ""), base, where)
            places[name] = place
            pinned.append({**behaviour, "policy": name, "sha256": digest})
        else:
            pinned.append(behaviour)
    return {**table, "behaviours": pinned}, places


def _expanded(value: Any, base: Path, where: str) -> Iterator[dict[str, Any]]:
    """Yield one behaviour for each checkpoint of a training, in the order of their steps."""
    keys = value if isinstance(value, Mapping) else {"path": value}
    for key in keys:
        if key not in _FROM:
            raise RecipeError(
                f"{where}: unknown key behaviours_from.{key}; {did_you_mean(str(key), _FROM)}"
            )
    settings = {**_FROM, **keys}
    path = settings.pop("path")
    if not isinstance(path, str) or not path:
        raise RecipeError(f"{where}: behaviours_from is {value!r}, expected the path of a training")
    folder = _find(path, base, "")
    inside = [p for p in folder.iterdir() if _is_checkpoint(p)] if folder.is_dir() else []
    checkpoints = inside or ([folder] if _is_checkpoint(folder) else [])
    if not checkpoints:
        raise RecipeError(
            f"{where}: behaviours_from names {folder}, which holds no checkpoints; expected "
            "DIR/checkpoints of `hindcast train-online ... --checkpoint-every N`"
        )
    for checkpoint in sorted(checkpoints, key=lambda p: (_described(p, where)[2], p.name)):
        name = str(checkpoint)  # a policy with a slash is a checkpoint
        yield {"policy": name if "/" in name else f"./{name}", **settings}


def _is_checkpoint(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _find(policy: str, base: Path, inside: str) -> Path:
    """Return the folder of a checkpoint: below the recipe's folder, else below the working one."""
    place = location(policy)
    if "://" in policy or place.is_absolute():
        return place
    beside = base / policy
    return beside if (beside / inside).exists() else place


def _described(folder: Path, where: str) -> tuple[str, int, int]:
    """Return agent, seed and steps of a checkpoint; raise RecipeError if it is damaged."""
    try:
        value = read_json(folder / DESCRIPTION)
        agent, training = value["agent"], value["training"]
        seed, steps = training["seed"], training["steps"]
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise RecipeError(f"{where}: the checkpoint {folder} is damaged: {error}") from error
    valid_agent = isinstance(agent, str) and _AGENT.fullmatch(agent)
    if not (valid_agent and type(seed) is int and type(steps) is int and min(seed, steps) >= 0):
        raise RecipeError(
            f"{where}: the checkpoint {folder} is damaged: agent, seed or steps cannot be read"
        )
    return agent, seed, steps


def _pin(policy: str, claimed: Any, base: Path, where: str) -> tuple[str, Path, str]:
    """Return the name of a checkpoint by its content, its folder and its digest."""
    folder = _find(policy, base, DESCRIPTION)
    if not _is_checkpoint(folder):
        raise RecipeError(
            f"{where}: the behaviour {policy!r} is no checkpoint: {folder / DESCRIPTION} is missing"
        )
    agent, seed, steps = _described(folder, where)
    digest = sha256_file(folder / DESCRIPTION)
    if claimed and claimed != digest:
        raise RecipeError(
            f"{where}: the behaviour {policy!r} changed: the SHA-256 of {folder / DESCRIPTION} is "
            f"{digest[:12]}..., the recipe says {str(claimed)[:12]}..."
        )
    return f"{FOLDER}/{agent}-seed{seed}-step{steps}-{digest[:8]}", folder, digest


def checkpoint_places(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """Return the folders of a recipe's checkpoints in its dataset.

    Raises DatasetError for a symbolic link.
    """
    places = {b.policy: folder / b.policy for b in recipe.behaviours if b.is_checkpoint}
    for place in places.values():
        for path in (folder / FOLDER, place, place / DESCRIPTION, place / WEIGHTS):
            if path.is_symlink():
                raise DatasetError(
                    f"{path}: this is a symbolic link, which is not followed inside a dataset; "
                    "copy the files themselves (cp -rL)"
                )
    return places


def copy_policies(recipe: Recipe, out: Path) -> None:
    """Copy the checkpoints of a recipe's behaviours into its dataset, unless they are there.

    Raises DatasetError if one is missing or has changed since the recipe was read.
    """
    for behaviour in recipe.behaviours:
        target = out / behaviour.policy
        if not behaviour.is_checkpoint or _is_whole(target, behaviour.sha256):
            continue
        source = recipe.places.get(behaviour.policy)
        if source is None or not _is_whole(source, behaviour.sha256):
            raise DatasetError(
                f"{source or behaviour.policy}: this checkpoint of a behaviour is missing, or was "
                f"changed since the recipe was read (SHA-256 {behaviour.sha256[:12]}...)"
            )
        make_folder(target)
        for name in (WEIGHTS, DESCRIPTION):
            write_bytes(target / name, (source / name).read_bytes())


def _is_whole(folder: Path, sha256: str) -> bool:
    """Return whether a checkpoint exists with this description and the weights it describes."""
    try:
        check_checkpoint(folder, sha256)
    except InputError:
        return False
    return True


def check_checkpoint(folder: Path, sha256: str) -> None:
    """Raise DatasetError that names the file of a checkpoint which is missing or has changed."""
    description = folder / DESCRIPTION
    require_file(description)
    if (digest := sha256_file(description)) != sha256:
        raise DatasetError(
            f"{description}: this file was changed: its SHA-256 is {digest[:12]}..., the recipe "
            f"says {sha256[:12]}..."
        )
    weights = folder / WEIGHTS
    require_file(weights, _LARGEST)
    described = read_json(description)
    claimed = described.get("weights") if isinstance(described, dict) else None
    if not isinstance(claimed, dict) or sha256_file(weights) != claimed.get("sha256"):
        raise DatasetError(
            f"{weights}: this file was changed: its SHA-256 differs from that in {DESCRIPTION}"
        )


def check_policies(recipes: Sequence[Recipe], folder: Path, *, more: bool) -> int:
    """Check the checkpoints inside a dataset, and return their number.

    `more` accepts others there, as during an append. Raises DatasetError for a file that is
    missing, changed or not in the manifest.
    """
    policy_of: dict[str, str] = {}
    for recipe in recipes:
        for policy, place in checkpoint_places(recipe, folder).items():
            policy_of[place.name] = policy
            for digest in sorted({b.sha256 for b in recipe.behaviours if b.policy == policy}):
                check_checkpoint(place, digest)
    if (folder / FOLDER).is_dir() and not more:
        for path in sorted((folder / FOLDER).rglob("*")):
            parts = path.relative_to(folder / FOLDER).parts
            if parts[0] not in policy_of or parts[1:] not in {(), (DESCRIPTION,), (WEIGHTS,)}:
                raise DatasetError(f"{path}: this file is not in the manifest")
    return len(policy_of)
