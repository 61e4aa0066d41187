"""Behaviours that are checkpoints: found, named by their content, copied into the dataset.

    policy = "agents/natural/checkpoints/step-000060"          as written: a path or URL, with a /
    policy = "policies/natural_gradient-seed0-step60-1f2e3d4c" as read, with sha256 = "1f2e3d4c..."

    DATASET/policies/<name>/checkpoint.json, weights.safetensors

`sha256` is of checkpoint.json, which holds that of the weights: it enters the recipe's digest, and
no path of the machine that built the dataset does. The copies let a dataset be verified and built
again without anything else. What is read here is compared and copied; a policy is loaded by
policies.networks.checkpoint alone, where nothing is ever unpickled.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.errors import DatasetError, InputError, RecipeError, did_you_mean
from pipeline.recipes.recipe import Recipe
from pipeline.storage.files import make_folder, read_json, sha256_file, write_bytes
from pipeline.storage.guards import require_file
from pipeline.storage.location import location
from pipeline.storage.run_files import DESCRIPTION, WEIGHTS

FOLDER: Final = "policies"
_LARGEST: Final = 4 << 30  # bytes of weights
_PINNED: Final = re.compile(rf"{FOLDER}/[A-Za-z0-9_-]{{1,200}}")
_AGENT: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FROM: Final[Mapping[str, Any]] = {
    "path": "", "temperature": 1.0, "epsilon": 0.0, "episodes": 1,
}  # fmt: skip


def check_behaviour(policy: str, sha256: str, where: str) -> None:
    """RecipeError for a checkpoint that is not named as one inside a dataset is."""
    if ("/" in policy or "\\" in policy) != bool(sha256):
        raise RecipeError(
            f"{where}: behaviour {policy!r} with sha256 {sha256!r}; expected a rule without, or a "
            "checkpoint with one"
        )
    if sha256 and not (_PINNED.fullmatch(policy) and _SHA256.fullmatch(sha256)):
        raise RecipeError(
            f"{where}: behaviour {policy!r} with sha256 {sha256[:80]!r}; expected a checkpoint "
            f"{FOLDER}/NAME of the dataset itself, and 64 hexadecimal digits"
        )


def built_from(folder: Path) -> dict[str, Any] | None:
    """The recipe in the manifest of a dataset folder; None where the folder is no dataset.

    Raises DatasetError where something was appended, since one recipe cannot build that.
    """
    manifest = folder / "manifest.json"
    if (folder / "recipe.toml").is_file() or not manifest.is_file():
        return None
    value = read_json(manifest)
    if not isinstance(value, dict) or not isinstance(value.get("recipe"), dict):
        return None
    if value.get("appended"):
        raise DatasetError(f"{folder}: was appended to, so that no single recipe builds it")
    recipe: dict[str, Any] = value["recipe"]
    return recipe


def pin_checkpoints(
    table: Mapping[str, Any], base: Path, where: str
) -> tuple[dict[str, Any], dict[str, Path]]:
    """A recipe's table with its checkpoints named by content, and where each of them is.

    `behaviours_from` is replaced by what it stands for. Raises RecipeError that names a checkpoint
    which is missing, is none, or is another one than the sha256 beside it.
    """
    table, places = dict(table), {}
    if "behaviours_from" in table:
        table["behaviours"] = list(_expanded(table.pop("behaviours_from"), base, where))
    behaviours = table.get("behaviours")
    if not isinstance(behaviours, Sequence):
        return table, {}
    found = []
    for behaviour in behaviours:
        policy = behaviour.get("policy") if isinstance(behaviour, Mapping) else None
        if isinstance(policy, str) and "/" in policy:
            name, place, digest = _pin(policy, behaviour.get("sha256", ""), base, where)
            places[name] = place
            found.append({**behaviour, "policy": name, "sha256": digest})
        else:
            found.append(behaviour)
    return {**table, "behaviours": found}, places


def _expanded(value: Any, base: Path, where: str) -> Iterator[dict[str, Any]]:
    """One behaviour for each checkpoint of a training, in the order of their steps."""
    given = value if isinstance(value, Mapping) else {"path": value}
    for key in given:
        if key not in _FROM:
            raise RecipeError(
                f"{where}: unknown key behaviours_from.{key}; {did_you_mean(str(key), _FROM)}"
            )
    settings = {**_FROM, **given}
    path = settings.pop("path")
    if not isinstance(path, str) or not path:
        raise RecipeError(f"{where}: behaviours_from is {value!r}, expected the path of a training")
    folder = _find(path, base, "")
    inside = [p for p in folder.iterdir() if _is_checkpoint(p)] if folder.is_dir() else []
    found = inside or ([folder] if _is_checkpoint(folder) else [])
    if not found:
        raise RecipeError(
            f"{where}: behaviours_from: no checkpoints in {folder}; expected DIR/checkpoints of "
            "`hindcast train-online ... --checkpoint-every N`"
        )
    for checkpoint in sorted(found, key=lambda p: (_described(p, where)[2], p.name)):
        name = str(checkpoint)  # a policy with a slash is a checkpoint
        yield {"policy": name if "/" in name else f"./{name}", **settings}


def _is_checkpoint(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _find(policy: str, base: Path, inside: str) -> Path:
    """Where a checkpoint is: below the recipe's folder, else as any path of a command."""
    given = location(policy)
    if "://" in policy or given.is_absolute():
        return given
    beside = base / policy
    return beside if (beside / inside).exists() else given


def _described(folder: Path, where: str) -> tuple[str, int, int]:
    """Agent, seed and steps of a checkpoint; RecipeError where it is none."""
    try:
        value = read_json(folder / DESCRIPTION)
        agent, training = value["agent"], value["training"]
        seed, steps = training["seed"], training["steps"]
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise RecipeError(f"{where}: checkpoint {folder}: {error}") from error
    named = isinstance(agent, str) and _AGENT.fullmatch(agent)
    if not (named and type(seed) is int and type(steps) is int and min(seed, steps) >= 0):
        raise RecipeError(f"{where}: checkpoint {folder}: agent, seed or steps cannot be read")
    return agent, seed, steps


def _pin(policy: str, claimed: Any, base: Path, where: str) -> tuple[str, Path, str]:
    """The name of a checkpoint by its content, its place and its digest."""
    folder = _find(policy, base, DESCRIPTION)
    if not _is_checkpoint(folder):
        raise RecipeError(f"{where}: behaviour {policy!r}: {folder} is no checkpoint")
    agent, seed, steps = _described(folder, where)
    digest = sha256_file(folder / DESCRIPTION)
    if claimed and claimed != digest:
        raise RecipeError(
            f"{where}: behaviour {policy!r}: {folder} changed: SHA-256 is {digest[:12]}..., the "
            f"recipe says {str(claimed)[:12]}..."
        )
    return f"{FOLDER}/{agent}-seed{seed}-step{steps}-{digest[:8]}", folder, digest


def checkpoint_places(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """The places of a recipe's checkpoints in its dataset; DatasetError for a symbolic link."""
    places = {b.policy: folder / b.policy for b in recipe.behaviours if b.sha256}
    for place in places.values():
        for path in (folder / FOLDER, place, place / DESCRIPTION, place / WEIGHTS):
            if path.is_symlink():
                raise DatasetError(
                    f"{path}: is a symbolic link, which is not followed in a dataset"
                )
    return places


def copy_policies(recipe: Recipe, out: Path) -> None:
    """Copy the checkpoints of a recipe's behaviours into its dataset, unless they are there.

    Raises DatasetError where one is missing or has changed since the recipe was read.
    """
    for behaviour in recipe.behaviours:
        target = out / behaviour.policy
        if not behaviour.sha256 or _is_whole(target, behaviour.sha256):
            continue
        source = recipe.places.get(behaviour.policy)
        if source is None or not _is_whole(source, behaviour.sha256):
            raise DatasetError(
                f"{source or behaviour.policy}: the checkpoint of a behaviour is missing, or "
                f"changed since the recipe was read (SHA-256 {behaviour.sha256[:12]}...)"
            )
        make_folder(target)
        for name in (WEIGHTS, DESCRIPTION):
            write_bytes(target / name, (source / name).read_bytes())


def _is_whole(folder: Path, sha256: str) -> bool:
    """Whether a checkpoint is there, with this description and the weights that it describes."""
    try:
        check_checkpoint(folder, sha256)
    except InputError:
        return False
    return True


def check_checkpoint(folder: Path, sha256: str) -> None:
    """DatasetError that names the file of a checkpoint which is missing or has changed."""
    description = folder / DESCRIPTION
    require_file(description)
    if (digest := sha256_file(description)) != sha256:
        raise DatasetError(
            f"{description}: changed: SHA-256 is {digest[:12]}..., the recipe says {sha256[:12]}..."
        )
    weights = folder / WEIGHTS
    require_file(weights, _LARGEST)
    described = read_json(description)
    told = described.get("weights") if isinstance(described, dict) else None
    if not isinstance(told, dict) or sha256_file(weights) != told.get("sha256"):
        raise DatasetError(f"{weights}: changed: SHA-256 is not that of {DESCRIPTION}")


def check_policies(recipes: Sequence[Recipe], folder: Path, *, more: bool) -> int:
    """Check the checkpoints inside a dataset; their number.

    `more` lets others be there, as while an append is under way. Raises DatasetError that names
    what is missing, changed or too many.
    """
    known: dict[str, str] = {}
    for recipe in recipes:
        for policy, place in checkpoint_places(recipe, folder).items():
            known[place.name] = policy
            (digest,) = {b.sha256 for b in recipe.behaviours if b.policy == policy}
            check_checkpoint(place, digest)
    if (folder / FOLDER).is_dir() and not more:
        for path in sorted((folder / FOLDER).rglob("*")):
            at = path.relative_to(folder / FOLDER).parts
            if at[0] not in known or (len(at) > 1 and at[1:] not in {(DESCRIPTION,), (WEIGHTS,)}):
                raise DatasetError(f"{path}: is not in the manifest")
    return len(known)
