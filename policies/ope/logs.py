"""Off-policy evaluation on a log of decisions, which no simulator made.

OUT/
estimates.parquet               a row per policy and estimator
support.parquet                 a row per policy: can the log answer?
support_by.parquet              the same by candidate, category, logger and time
trials.parquet                  a row per number of policies that are tried online
estimated_propensities.parquet  reliability by tenths, if propensities were estimated
ope.json                        sentences, cautions, settings; written last
"""

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.lineage import selection_caveats
from hindcast.pipeline.dataset.manifest import Manifest
from hindcast.pipeline.decisions.answers import Answers, answer
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.asking import ALL, Options
from hindcast.pipeline.decisions.cautions import with_cautions
from hindcast.pipeline.decisions.log import Array, Caution, DecisionLog
from hindcast.pipeline.decisions.record import read_record
from hindcast.pipeline.decisions.scoring import scored
from hindcast.pipeline.decisions.targets import SHOWN, is_named, target_of
from hindcast.pipeline.errors import InputError, did_you_mean, is_path
from hindcast.pipeline.estimators.decisions import LoggedDecisions
from hindcast.pipeline.plugins import is_reference
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.recipes.workload_source import DECISIONS
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.policies.ope.results import DESCRIPTION, ESTIMATES, TRIALS, finite
from hindcast.policies.own_policy import OwnPolicy
from hindcast.policies.registry import resolve_own, split_checkpoint_name

SUPPORT: Final = "support.parquet"
SUPPORT_BY: Final = "support_by.parquet"
RELIABILITY: Final = "estimated_propensities.parquet"
DEFAULT: Final = ("uniform",)
LOG: Final = "log"
MOVED: Final = "moved"

Policy = str | Path | Callable[..., Any]


def is_log(folder: Path) -> bool:
    """Return whether a dataset is a log of decisions without a simulator."""
    return ds.open(folder).recipe.trace.format == DECISIONS


def ask(
    folder: Path,
    policies: Sequence[Policy],
    *,
    split: str | None = None,
    accept: Sequence[str] = (),
    estimate_propensities: bool = False,
    seed: int = 0,
    out: Path | None = None,
    command: str = "",
) -> Answers:
    """Return what the log of a dataset says about policies.

    Args:
        folder: The dataset.
        policies: Names (`hindcast.pipeline.decisions.targets`), folders of checkpoints, references
            to functions FILE.py:NAME, or functions; `uniform` if there are none.
        split: Split whose decisions are weighed. By default all; `test` for a checkpoint that was
            trained on the dataset.
        accept: Codes of contradictions that are accepted.
        estimate_propensities: True to estimate propensities where none were logged.
        seed: Seed of the bootstrap.
        out: Folder for the tables; None writes nothing.
        command: Command line that is kept.

    Raises:
        InputError: The dataset, a policy or a setting cannot be used. A log that cannot answer is
            a result.
    """
    dataset = ds.open(folder)
    log = with_cautions(read_record(folder, dataset.manifest.provenance))
    of_selection = [Caution(c.code, c.text) for c in selection_caveats(dataset.manifest.lineage)]
    log = replace(log, cautions=(*of_selection, *log.cautions))
    logged = logged_decisions(log)
    targets: dict[str, Array] = {}
    splits: dict[str, str] = {}
    for policy in policies or DEFAULT:
        name, target, seen = _target(policy, dataset, log, logged)
        if seen == MOVED:
            raise InputError(
                f"{name}: this agent was trained on decisions of the same log, and the split of "
                f"{folder} moved train units to other splits, so the agent may have learned from "
                "these decisions; expected one that was trained on the train part of that split"
            )
        if seen and split in ("train", ALL):
            raise InputError(
                f"{name}: this agent was trained on {folder}, so its value on the split {split} "
                "would be too good; expected --split test or validation"
            )
        if seen and split is None:
            splits[name] = "test"
        if name in targets:
            raise InputError(f"{name}: this policy is given twice")
        targets[name] = target
    options = Options(split or ALL, tuple(accept), estimate_propensities, seed)
    found = answer(log, targets, options, splits)
    if out is not None:
        write(found, out, dataset, command)
    return found


def _target(
    policy: Policy, dataset: Dataset, log: DecisionLog, logged: LoggedDecisions
) -> tuple[str, Array, str]:
    """Return the name of a policy, its probabilities, and what it learned from, see `_seen`."""
    if callable(policy):
        return _of_function(policy, dataset.spec, log, logged)
    name = str(getattr(policy, "folder", policy))
    if is_named(name):
        return name, target_of(name, log, logged), ""
    if is_reference(name):
        behaviour = resolve_own(name, dataset.spec)[0]
        return behaviour.name, _scored(behaviour, dataset.spec, log, logged), ""
    path, temperature = split_checkpoint_name(name)
    if not Path(path).exists():
        hint = "no such checkpoint folder" if is_path(name) else did_you_mean(name, SHOWN)
        raise InputError(
            f"{name}: this is no policy of a log ({hint}); expected {', '.join(SHOWN)}, the folder "
            "of a checkpoint, or FILE.py:NAME"
        )
    from hindcast.pipeline.storage.run_files import DESCRIPTION as CHECKPOINT
    from hindcast.policies.networks.checkpoint import load_policy

    if isinstance(temperature, str):
        raise InputError(f"{name}: a log has no rule {temperature!r} to lead a network")
    learned = load_policy(Path(path))
    learned.check(dataset.spec)
    behaviour = Behaviour(learned.name, learned, temperature=temperature)
    text = (Path(path) / CHECKPOINT).read_text(encoding="utf-8")
    return name, _scored(behaviour, dataset.spec, log, logged), _seen(text, dataset.manifest)


def _seen(checkpoint: str, manifest: Manifest) -> str:
    """Return what an agent learned from, as the text of its checkpoint says.

    LOG is the dataset, one of the same log whose test split has the same units, or more; MOVED one
    whose train units may be in the dataset's test split; "" another log.
    """
    lineage = manifest.lineage
    above = () if lineage is None else lineage.digests
    if not any(digest in checkpoint for digest in (manifest.digest, *above)):
        return ""
    if lineage is None or not lineage.divided:
        return LOG
    data = json.loads(checkpoint).get("training", {}).get("dataset", {})
    if (trained := data.get("digest")) in (manifest.digest, *above):
        return MOVED if trained != manifest.digest and lineage.divided_since(trained) else LOG
    siblings = [
        replace(lineage, arguments={**lineage.arguments, "part": name}).words for name in SPLITS
    ]
    same = data.get("made_by") in siblings and data.get("of") == list(above)
    return LOG if same else MOVED


def _of_function(
    function: Callable[..., Any], spec: Spec, log: DecisionLog, logged: LoggedDecisions
) -> tuple[str, Array, str]:
    """Return a function's name, its probabilities, and "", since it did not learn here."""
    name = getattr(function, "__name__", type(function).__name__)
    given = {"spec": spec} if "spec" in inspect.signature(function).parameters else {}
    batched = bool(getattr(function, "batched", False))
    own = OwnPolicy(name, function, given, batched, name)
    return name, _scored(Behaviour(name, own), spec, log, logged), ""


def _scored(behaviour: Behaviour, spec: Spec, log: DecisionLog, logged: LoggedDecisions) -> Array:
    """Return the probabilities of a policy; functions of the user's own see NaN where unknown."""
    own = isinstance(behaviour.policy, OwnPolicy)
    return scored(behaviour.policy, spec, log, logged, behaviour.temperature, missing=own)


def write(found: Answers, out: Path, dataset: Dataset, command: str = "") -> None:
    """Write the tables and the description of answers."""
    files.make_folder(out)
    files.write_parquet(out / ESTIMATES, found.estimates)
    files.write_parquet(out / SUPPORT, found.support)
    files.write_parquet(out / SUPPORT_BY, found.support_by)
    files.write_parquet(out / TRIALS, found.trials)
    if found.estimated is not None:
        table = pl.DataFrame(
            found.estimated.reliability, orient="row",
            schema={"predicted": pl.Float64, "observed": pl.Float64, "candidates": pl.Int64},
        )  # fmt: skip
        files.write_parquet(out / RELIABILITY, table)
    files.write_json(out / DESCRIPTION, describe(found, dataset, command))


def describe(found: Answers, dataset: Dataset, command: str = "") -> dict[str, Any]:
    """Return the description of answers, as in ope.json."""
    value = {
        "kind": "log", "dataset": dataset.manifest.name, "digest": dataset.manifest.digest,
        "propensities": found.propensities, "options": asdict(found.options),
        "logged": found.logged,
        "sentences": dict(found.sentences), "answerable": dict(found.answerable),
        "cautions": [asdict(c) for c in found.cautions], "command": command,
    }  # fmt: skip
    return finite(json.loads(json.dumps(value)))  # type: ignore[no-any-return]


def described(found: Answers, folder: Path) -> dict[str, Any]:
    """Return the description of answers about the dataset in a folder."""
    return describe(found, ds.open(folder))
