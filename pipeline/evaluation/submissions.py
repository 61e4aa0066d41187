"""Submissions: an evaluation with all that is needed to score it again, in one file.

    FILE.zip
      submission.json     kind, version; words: what names the policies in the archive;
                          looks: other agents that the submitter's ledger had on these windows;
                          files: SHA-256 of every other file
      evaluation.json     as `hindcast evaluate` wrote them
      scores.parquet
      plan.json           the plan of the evaluation, if it had one
      policies/0/...      checkpoints, code and weights, a folder each

Members have a fixed time, so that equal content is an equal file. Nothing in an archive is
unpickled, and code in it is not run here.
"""

import lzma
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import polars as pl

from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.plans import deviations_from, read_plan
from hindcast.pipeline.evaluation.summary.evaluations import (
    KEY,
    describe_row,
    read_evaluation,
    read_scores,
)
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.recipes.loading import load_recipe, parse_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.pipeline.storage.files import (
    json_text,
    make_folder,
    parse_json,
    read_json,
    require_file,
    sha256_file,
    sha256_text,
    write_atomically,
    write_bytes,
)
from hindcast.pipeline.storage.json_values import a_count, a_list, a_sha256, a_table, a_text
from hindcast.pipeline.storage.run_files import EVALUATION, SCORES

KIND: Final = "hindcast submission"
VERSION: Final = 1
MANIFEST: Final = "submission.json"
PLAN: Final = "plan.json"
_LARGEST: Final = 256 << 20  # bytes of all members
_MOST: Final = 1000  # members
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_NEAR: Final = 1e-9  # relative: last bits of a network differ between machines
_RULE: Final = re.compile(r"[\w.@+-]+")
_INSIDE: Final = re.compile(
    r"([\w.-]+=)?(?:policies/\d+(?:/[^/,=:]+)*(?::[\w.]+|@[\w.]+)?(?:,|$))+"
)
_NUMBERED: Final = re.compile(r"(.*?)(\d{1,9})")
HOLDS, FAILS, OPEN = "holds", "FAILS", "not checked"


class Check(NamedTuple):
    """A claim of a submission: its name, HOLDS, FAILS or OPEN, and what was found."""

    name: str
    state: str
    detail: str


@dataclass(frozen=True)
class Submission:
    """A submission whose files have been unpacked.

    Attributes:
        folder: Folder of the files.
        recipe: The recipe that was evaluated.
        split: The split that was evaluated.
        words: Names of the policies; paths among them are relative to `folder`.
        policies: The policies in evaluation.json.
        plan: The plan, or None.
        looks: Other agents in the submitter's ledger: when evaluated, and when submitted.
        decides: Whether windows were played until two policies were told apart.
    """

    folder: Path
    recipe: Recipe
    split: str
    words: tuple[str, ...]
    policies: tuple[Mapping[str, Any], ...]
    plan: Mapping[str, Any] | None
    looks: tuple[int | None, int | None]
    decides: bool


def recipe_of(folder: Path) -> tuple[Recipe, str, list[dict[str, Any]]]:
    """Return recipe, split and policies of an evaluation folder.

    Raises DatasetError if evaluation.json is older than the keys that say them, or is damaged.
    """
    read_evaluation(folder)
    path = folder / EVALUATION
    raw = read_json(path)
    if not isinstance(raw.get("settings"), dict):
        raise DatasetError(
            f"{path}: has no settings of its recipe, since an older version wrote it; evaluate "
            "again"
        )
    recipe = parse_recipe(raw["settings"], f"{path}: settings").under(raw.get("recipe"))
    if recipe.digest != raw.get("digest"):
        raise DatasetError(
            f"{path}: the digest is {str(raw.get('digest'))[:12]}, but the settings have "
            f"{recipe.digest[:12]}; one of them was changed"
        )
    return recipe, str(raw.get("split") or ""), list(map(dict, raw["policies"]))


def differences_of(policies: Sequence[Mapping[str, Any]], found: Sequence[Entrant]) -> list[str]:
    """Return where the policies of evaluation.json are others than those found, as sentences."""
    claimed = {str(each["name"]): each for each in policies}
    names = {each.behaviour.name for each in found}
    told = [f"{name} is not in the evaluation" for name in names - set(claimed)]
    told += [f"{name} cannot be found" for name in set(claimed) - names]
    for each in found:
        if (one := claimed.get(each.behaviour.name)) is None:
            continue
        own = {
            "kind": each.kind, "group": each.group, "digest": each.digest,
            "epsilon": each.behaviour.epsilon, "temperature": each.behaviour.temperature,
        }  # fmt: skip
        written = {key: one.get(key, 0.0 if key in {"epsilon", "temperature"} else None)
                   for key in own}  # fmt: skip
        told += [
            f"{each.behaviour.name}: {key} is {str(own[key])[:12]}, in the evaluation "
            f"{str(written[key])[:12]}"
            for key in own if own[key] != written[key]
        ]  # fmt: skip
    return sorted(told)


def write_submission(
    out: Path, folder: Path, plan: Path | None, words: Sequence[str], files: Mapping[str, Path],
    looks: int | None,
) -> str:  # fmt: skip
    """Write a submission and return its SHA-256.

    Args:
        out: The file, which must not exist.
        folder: The evaluation.
        plan: File of the plan of the evaluation.
        words: Names of the policies, whose paths are those of `files`.
        files: Files of the policies by path in the archive.
        looks: Other agents in the ledger, see the module.

    Raises InputError if `out` exists, or the plan is missing or another one.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; choose another --out")
    planned = read_evaluation(folder).plan
    if (planned is None) != (plan is None):
        raise InputError(
            f"{folder}: this evaluation had {'no' if planned is None else 'a'} plan; "
            + ("leave out --plan" if planned is None else "name its file with --plan")
        )
    members = {EVALUATION: folder / EVALUATION, SCORES: folder / SCORES, **files}
    if plan is not None and planned is not None:
        if sha256_text(json_text(read_plan(plan))) != planned.sha256:
            raise InputError(f"{plan}: this is not the plan of {folder}; its SHA-256 is another")
        members[PLAN] = plan
    manifest = {
        "kind": KIND, "version": VERSION, "words": list(words), "looks": looks,
        "files": {name: sha256_file(path) for name, path in members.items()},
    }  # fmt: skip

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name in (MANIFEST, *members):
                told = zipfile.ZipInfo(name, _TIME)
                told.compress_type = zipfile.ZIP_DEFLATED
                content = members[name].read_bytes() if name in members else json_text(manifest)
                archive.writestr(told, content)

    return write_atomically(out, write).sha256


def unpack(path: Path, out: Path) -> Submission:
    """Write the files of a submission into an empty folder and read them.

    Raises DatasetError if the archive is damaged, or holds other files than its manifest says.
    """
    require_file(path, _LARGEST, links=True)
    try:
        with zipfile.ZipFile(path) as archive:
            content = _members(archive)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError,
            EOFError, ValueError, OSError) as error:  # fmt: skip
        raise DatasetError(f"{path}: no archive that can be read ({error})") from error
    try:
        listed, words, looks = _manifest(content.pop(MANIFEST).decode())
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: {MANIFEST} is missing or damaged: {error}") from error
    for name in sorted({*content, *listed}):
        if name not in content or name not in listed:
            where = "the manifest" if name in content else "the archive"
            raise DatasetError(f"{path}: {name} is not in {where}")
        target = out / name
        make_folder(target.parent)
        write_bytes(target, content[name])
        if sha256_file(target) != listed[name]:
            raise DatasetError(f"{path}: {name} was changed: its SHA-256 is not in the manifest")
    for word in words:
        if ".." in word or not (_RULE.fullmatch(word) or _INSIDE.fullmatch(word)):
            raise DatasetError(f"{path}: {word!r} names no policy in the archive")
    recipe, split, policies = recipe_of(out)
    plan = read_plan(out / PLAN) if PLAN in content else None
    looked = (read_evaluation(out).looks, looks)
    decides = read_evaluation(out).until is not None
    return Submission(out, recipe, split, words, tuple(policies), plan, looked, decides)


def _manifest(text: str) -> tuple[dict[str, str], tuple[str, ...], int | None]:
    """Return the SHA-256 of each file, what names the policies, and the number of looks.

    Raises KeyError, TypeError or ValueError for a damaged or a foreign manifest.
    """
    manifest = a_table(parse_json(text))
    kind, version = manifest.get("kind"), manifest.get("version")
    if (kind, version) != (KIND, VERSION):
        raise ValueError(f"this is {kind!r} of version {version!r}, expected {KIND!r} of {VERSION}")
    listed = {a_text(name): a_sha256(one) for name, one in a_table(manifest["files"]).items()}
    looks = None if manifest["looks"] is None else a_count(manifest["looks"])
    return listed, tuple(map(a_text, a_list(manifest["words"]))), looks


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Return the content of all members; raise ValueError for a name or size that is refused."""
    told = archive.infolist()
    names = [one.filename for one in told]
    if len(told) > _MOST or sum(one.file_size for one in told) > _LARGEST:
        raise ValueError(f"more than {_MOST} files or {_LARGEST >> 20} MiB")
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or "\\" in name:
            raise ValueError(f"{name!r} is no path below a folder")
    if len(set(names)) < len(names):
        raise ValueError("two files have one name")
    found = {}
    for one in told:
        with archive.open(one) as file:
            found[one.filename] = file.read(one.file_size + 1)
        if len(found[one.filename]) != one.file_size:
            raise ValueError(f"{one.filename} has not the size that it claims")
    return found


def check_recipe(submission: Submission) -> Check:
    """Say whether the recipe is one that comes with Hindcast, and which settings were changed."""
    table = submission.recipe.to_dict()
    name, windows = (
        table["id"],
        count_of(len(submission.recipe.windows(submission.split)), "window"),
    )
    played = f"{submission.split}, {windows}"
    if name not in known_recipes():
        return Check("recipe", OPEN, f"{name} does not come with Hindcast; {played}")
    shipped = load_recipe(name).to_dict()
    changed = [key for key in table if table[key] != shipped.get(key)]
    said = f"with other {', '.join(changed)}" if changed else "as it comes with Hindcast"
    return Check("recipe", HOLDS, f"{name} {said}; {played}")


def check_plan(submission: Submission) -> Check:
    """Compare the plan with what was evaluated, and with what evaluation.json says of the plan."""
    recorded, plan = read_evaluation(submission.folder).plan, submission.plan
    if plan is None:
        if recorded is not None:
            return Check("plan", FAILS, "the evaluation had a plan, which is not in the file")
        return Check("plan", OPEN, "none was written, so policies may have been left out")
    agents = tuple(dict.fromkeys(each["group"] for each in plan["policies"] if each["agent"]))
    own = (sha256_text(json_text(plan)), plan["written"], plan["looks"], agents)
    if recorded is None or own != (
        recorded.sha256,
        recorded.written,
        recorded.looks,
        recorded.agents,
    ):
        return Check("plan", FAILS, "the plan is not the one that the evaluation names")
    scored = {str(one["name"]): one.get("digest") for one in submission.policies}
    told = deviations_from(plan, submission.recipe, scored, submission.split)
    if submission.decides and "until" not in plan:
        told.append("windows are played until it is decided, which was not planned")
    told = list(dict.fromkeys([*told, *recorded.deviations]))
    if told:
        return Check("plan", FAILS, "; ".join(told))
    return Check("plan", HOLDS, f"written {plan['written']}, nothing deviates from it")


def check_seeds(submission: Submission) -> Check:
    """Look for training seeds that were left out, by numbers in names and in code.

    A submission without a plan can be one seed of many. Numbers that are missing between those of
    the seeds, and functions of the same name with other numbers, are the traces of it.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in submission.policies:
        if one["kind"] == "learned":
            groups.setdefault(str(one.get("group") or one["name"]), []).append(one)
    code = [path for path in submission.folder.rglob("*.py") if path.is_file()]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in code)
    told, counts = list[str](), list[str]()
    for group, members in groups.items():
        counts.append(f"{group} {len(members)}")
        stems: dict[str, set[int]] = {}
        for one in members:
            name = str(one["name"]).removeprefix(f"{group}-").rpartition(":")[2]
            if match := _NUMBERED.fullmatch(name):
                stems.setdefault(match[1], set()).add(int(match[2]))
        for stem, numbers in stems.items():
            low, high = min(numbers), max(numbers)
            between = set(range(low, high)) - numbers if high - low <= _MOST else set[int]()
            if members[0].get("code") and stem:
                between |= {int(n) for n in re.findall(rf"\b{re.escape(stem)}(\d{{1,6}})\b", text)}
            if left := sorted(between - numbers):
                told.append(f"of {group}, {', '.join(f'{stem}{n}' for n in left)} are not scored")
    found = "; ".join([f"training seeds: {', '.join(counts) or 'none'}", *told])
    return Check("seeds", FAILS if told and submission.plan is None else HOLDS, found)


def check_looks(submission: Submission) -> Check:
    """Say how many other agents were scored on these windows, by the submitter's ledger."""
    before, now = submission.looks
    if before is None or now is None:
        return Check("looks", OPEN, "they were not counted")
    state = FAILS if now < before else HOLDS
    return Check("looks", state, f"by the submitter's ledger, {count_of(before, 'other agent')} "
                 f"had been scored on these windows before, {now} when submitted")  # fmt: skip


def check_reading(submission: Submission, again: Path) -> Check:
    """Compare what evaluation.json says about reading scores with an evaluation `again`."""
    one, now = read_evaluation(submission.folder), read_evaluation(again)
    names = ("scenario", "objective", "headline", "bound", "bound_kind")
    told = [name for name in names if getattr(one, name) != getattr(now, name)]
    better = [{m.name: m.better for m in each.metrics} for each in (one, now)]
    told += ["metrics"] if better[0] != better[1] else []
    told += ["stretches"] if one.stretches != now.stretches else []
    if told:
        return Check("reading", FAILS, f"others now: {', '.join(told)}")
    return Check("reading", HOLDS, "outcomes and shared jobs are those of the recipe")


def check_scores(submission: Submission, again: pl.DataFrame, names: Sequence[str]) -> Check:
    """Compare the scores of the policies `names` with scores `again`, value by value."""
    written = read_scores(submission.folder)
    metric = read_evaluation(submission.folder).headline
    ours, again = (f.filter(pl.col("policy").is_in(names)) for f in (written, again))
    until = read_evaluation(submission.folder).until
    if until is not None and len(names) < len(submission.policies):  # played to the last window
        first = submission.recipe.windows(submission.split)[: until.looks[-1].windows]
        again = again.filter(pl.col("window").is_in(list(first)))
    for one, other, where in ((again, ours, "file"), (ours, again, "evaluation")):
        lost = one.join(other, on=KEY, how="anti")
        if not lost.is_empty():
            return Check("scores", FAILS, f"{lost.height} scores are not in the {where}, such as "
                         f"{describe_row(lost.row(0, named=True))}")  # fmt: skip
    both, value, now = ours.join(again, on=KEY), pl.col("value"), pl.col("value_right")
    near = value.is_finite() & ((value - now).abs() <= _NEAR * value.abs())
    other = both.filter(value.ne_missing(now) & ~near.fill_null(value=False))
    if not other.is_empty():
        means = (
            both.filter((pl.col("metric") == metric) & pl.col("policy").is_in(other["policy"]))
            .group_by("policy", maintain_order=True)
            .agg(value.mean(), now.mean())
        )
        told = ", ".join(f"{name} {a:.6g}, now {b:.6g}" for name, a, b in means.iter_rows())
        return Check("scores", FAILS, f"{other.height} of {both.height} scores are others now; "
                     f"means of {metric}: {told}")  # fmt: skip
    if rest := written.height - ours.height:
        return Check("scores", OPEN, f"{both.height} scores come again, {rest} were not played")
    return Check("scores", HOLDS, f"all {both.height} scores come again")
