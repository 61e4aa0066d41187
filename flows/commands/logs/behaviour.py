"""`hindcast behaviour`: a model of the choices that a log's scheduler made; its run times."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    from hindcast.pipeline.workloads.schema import Workload
    from hindcast.policies.ope.behaviour.model import BehaviourModel

_DATASET: Final = "data"  # folder of the parts, which no workload has


@dataclass(frozen=True)
class Request:
    """Log or dataset of recorded decisions, and the file for the model."""

    source: p.Folder = p.argument(
        "log of a batch system, mapping of a table (.toml), ingested workload, "
        "or dataset of recorded decisions", metavar="LOG")  # fmt: skip
    out: p.Folder | None = p.option(
        "file for the model, JSON (a dataset keeps it beside the data)",
        default=None,
        metavar="FILE",
    )
    format: p.Name | None = p.option(
        "format of the log (default: recognised by its first lines)", default=None, metavar="FORMAT"
    )
    settings: tuple[p.Override, ...] = p.option(
        "setting of the format's reader (TOML), such as processors=1024; may be repeated",
        default=(), flag="--set", action="append", metavar="KEY=VALUE",
    )  # fmt: skip
    seed: p.Seed = p.option("seed of the network that the model is compared with", default=0)
    runs: bool = p.option(
        "say instead how well completed runs predict the run times of later jobs", default=False
    )

    @property
    def log(self) -> str:
        """The log, as `hindcast whatif` calls it."""
        return self.source


def check(request: Request) -> None:
    """Raise InputError if the source cannot be read as a log, or options do not go together."""
    from hindcast.flows.runs.whatif import source_of
    from hindcast.pipeline.errors import InputError, StorageError
    from hindcast.pipeline.storage.location import is_remote

    if is_remote(location(request.source)):
        raise InputError(f"{request.source}: expected a place on this machine, not a store")
    if request.runs and request.out:
        raise InputError("--out is for the model of the choices, expected no file with --runs")
    if _is_dataset(request):
        options = (
            ("--out", request.out), ("--format", request.format), ("--set", request.settings),
            ("--runs", request.runs),
        )  # fmt: skip
        for name, value in options:
            if value:
                raise InputError(f"{name} is for a log, and {request.source} is a dataset")
        return
    source_of(request)
    if request.out is not None and location(request.out).exists():
        raise StorageError(
            f"{request.out}: this file exists and is not overwritten; choose another --out"
        )


def _is_dataset(request: Request) -> bool:
    return (location(request.source) / _DATASET).is_dir()


def run(request: Request) -> dict[str, Any]:
    """Fit and test the model; write it, and for a dataset the estimated propensities."""
    if request.runs:
        return _runs(request)
    model, wrote = fitted(request)
    return {**_result(model), "source": request.source, "wrote": None if not wrote else str(wrote)}


def fitted(request: Request) -> tuple["BehaviourModel", Path | None]:
    """Fit and test the model, and write it; return the model and its file, if there is one."""
    from hindcast.pipeline.storage.files import write_json
    from hindcast.policies.ope.behaviour.propensities import described

    if _is_dataset(request):
        return _of_dataset(request)
    model = _of_log(request)
    if request.out is None:
        return model, None
    wrote = location(request.out)
    write_json(wrote, described(model.logit, source=request.source))
    return model, wrote


def _workload(request: Request) -> "Workload":
    from hindcast.flows.runs.whatif import source_of
    from hindcast.pipeline.recipes.recipe import Recipe
    from hindcast.pipeline.recipes.workload_source import load_source
    from hindcast.pipeline.scenarios import load_scenario

    config = load_scenario("queue").config()
    recipe = Recipe(
        "log", "queue", config, "bounded_slowdown", source_of(request), {"test": range(1)}, 1
    )
    return load_source(recipe)


def _of_log(request: Request) -> "BehaviourModel":
    from hindcast.pipeline.scenarios.queue.instances import read_log
    from hindcast.policies.ope.behaviour.model import model_of_log

    return model_of_log(read_log(_workload(request)), request.seed)


def _runs(request: Request) -> dict[str, Any]:
    """Return how well completed runs predict later ones."""
    import numpy as np

    from hindcast.pipeline.whatif.predictable import NAMES, PARTS, explained, meaning
    from hindcast.pipeline.whatif.record import read_record

    found = explained(read_record(_workload(request)))
    shares = {
        name: [
            {"context": context, **{
                part: None if np.isnan(share) else float(share)
                for part, share in zip(PARTS, row, strict=True)
            }}
            for context, row in zip(NAMES, values, strict=True)
        ]
        for name, values in (("weight", found.weight), ("ln_run", found.ln_run))
    }  # fmt: skip
    return {
        "source": request.source, "jobs": found.jobs, "started": found.started, "runs": shares,
        "meaning": meaning(found), "wrote": None,
    }  # fmt: skip


def _of_dataset(request: Request) -> tuple["BehaviourModel", Path]:
    import polars as pl

    from hindcast.pipeline import dataset as datasets
    from hindcast.pipeline.dataset.estimated import write_estimates
    from hindcast.policies.ope.behaviour.choice_sets import choices_of_episodes
    from hindcast.policies.ope.behaviour.model import model_of_choices
    from hindcast.policies.ope.behaviour.propensities import described, estimated
    from hindcast.policies.ope.episodes import read_episodes

    opened = datasets.open(location(request.source))
    splits = opened.episodes()["split"].unique(maintain_order=True).to_list()
    read = {split: read_episodes(opened, split, limit=1 << 62) for split in splits}
    model = model_of_choices(choices_of_episodes(read[splits[0]], opened.spec), request.seed)
    table = pl.concat(estimated(model.logit, log, opened.spec) for log in read.values())
    about = described(model.logit, fitted_on=splits[0])
    return model, write_estimates(opened.folder, opened.manifest, table, about)


def _result(model: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from hindcast.policies.ope.behaviour.model import in_words

    names = ("feature", "coefficient", "low", "high", "words")
    return {
        "fitted": model.fitted,
        "tested": model.tested,
        "candidates": model.candidates,
        "clusters": model.clusters,
        "scores": [asdict(score) for score in model.scores],
        "coefficients": [dict(zip(names, row, strict=True)) for row in in_words(model.logit)],
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the test of the model, its coefficients in words, and the file written."""
    if "runs" in result:
        return Shown(_shown_runs(result))
    tested = f"{result['tested']:,} later ones of {result['candidates']:.1f} candidates each"
    lines = [
        f"{result['source']}: fitted on {result['fitted']:,} choices, tested on {tested}",
        f"{'':<18}{'likeliest':>13}{'log-likelihood':>16}",
    ]
    for score in result["scores"]:
        likely = score["log_likelihood"]
        log_likelihood = "" if likely is None else f"{likely:.2f}"
        lines.append(f"  {score['name']:<16}{score['top_1']:>13.1%}{log_likelihood:>16}")
    lines.append(
        f"coefficients for one standard deviation (95 % intervals by {result['clusters']})"
    )
    for row in result["coefficients"]:
        known = row["low"] is not None
        interval = f"[{row['low']:.2f}, {row['high']:.2f}]" if known else "no interval"
        value = f"{row['coefficient']:.2f}"
        lines.append(f"  {row['feature']:<18}{value:>8}  {interval:<18}{row['words']}")
    if result["wrote"]:
        lines.append(result["wrote"])
    return Shown(lines)


_QUANTITIES: Final = {
    "weight": "10 s / max(run, 10 s), the weight of a job in the mean bounded slowdown",
    "ln_run": "ln run, which flatters: requests alone tell long jobs from short ones",
}


def _shown_runs(result: Mapping[str, Any]) -> list[str]:
    """Return the tables of explained shares, and what they mean."""
    begun = "" if result["started"] else "; it knows no starts, so jobs count as started at once"
    lines = [
        f"{result['source']}: {result['jobs']:,} jobs, predicted when they arrived{begun}",
        "share of the variation that is explained by the runs that had ended by then, of",
    ]
    for name, rows in result["runs"].items():
        parts = [part for part in rows[0] if part != "context"]
        lines += [f"  {_QUANTITIES[name]}", f"    {'':<31}" + "".join(f"{p:>13}" for p in parts)]
        for row in rows:
            lines.append(
                f"    {row['context']:<31}" + "".join(f"{_percent(row[p]):>13}" for p in parts)
            )
    return [*lines, result["meaning"]]


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.0%}" if share > -1.0 else "below -100%"


COMMANDS: Final = {"behaviour": Command(
    "hindcast behaviour KTH-SP2-1996-2.swf.gz",
    Request,
    "The model is a conditional logit of which waiting job started, among those that fitted. It\n"
    "is fitted on the first 60 % and tested on the last 30 %. Beside a dataset of recorded\n"
    "decisions, such as one of the level `recorded` or an imported history, it writes estimated\n"
    "propensities, for `hindcast ope --propensities estimated`. --runs tells what rules that\n"
    "learn run times, such as aged_expected, can know. Shares are below 0 where the mean, which\n"
    "is known only afterwards, would have been nearer.",
)}  # fmt: skip
