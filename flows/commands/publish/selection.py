"""`hindcast filter`, `merge` and `split`: datasets made of other datasets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, caveats_of
from hindcast.flows.commands import refuse_nothing as check  # noqa: F401 - a command's contract

_DEFAULT: Final = 0.2  # share of a split that is not given


@dataclass(frozen=True)
class Filter:
    """Dataset whose episodes are selected, the conditions, and the folder for the result."""

    dataset: p.Folder = p.argument("folder of a dataset")
    out: p.Folder = p.option("new folder for the dataset")
    split: tuple[p.Name, ...] = p.option("keep these splits", default=(), metavar="NAME")
    behaviour: tuple[p.Name, ...] = p.option("keep these behaviours", default=(), metavar="NAME")
    window: str = p.option("keep these windows, such as 3,12..20", default="", metavar="RANGES")
    episodes: str = p.option(
        "keep these episodes, by their numbers in the dataset", default="", metavar="RANGES"
    )
    drop_episodes: str = p.option("leave these episodes out", default="", metavar="RANGES")
    where: str = p.option(
        "keep episodes that meet this condition on columns of the table of episodes, in SQL, such "
        "as 'return < -50'", default="", metavar="SQL")  # fmt: skip


@dataclass(frozen=True)
class Merge:
    """Datasets that become one, and its folder."""

    datasets: tuple[p.Folder, ...] = p.argument("folders of datasets, at least two")
    out: p.Folder = p.option("new folder for the dataset")


@dataclass(frozen=True)
class Split:
    """Dataset that is split, and the folder for the datasets."""

    dataset: p.Folder = p.argument("folder of a dataset")
    out: p.Folder = p.option("new folder for the datasets, each in a folder named by its split")
    by: Literal["time", "hash"] | None = p.option(
        "divide the windows of the train split first, the latest ones or by a hash, into train, "
        "validation and test (default: the splits stay)", default=None)  # fmt: skip
    validation: float | None = p.option(
        f"share of the train windows that becomes validation, with --by (default: {_DEFAULT:g})",
        default=None, metavar="SHARE")  # fmt: skip
    test: float | None = p.option(
        f"share that becomes test, with --by (default: {_DEFAULT:g})", default=None,
        metavar="SHARE")  # fmt: skip


def run(request: Filter | Merge | Split) -> dict[str, Any]:
    """Write the dataset, or the datasets of a split."""
    from hindcast.flows.commands.build import result_of as described
    from hindcast.pipeline.dataset.building.results import result_of
    from hindcast.pipeline.errors import InputError
    from hindcast.pipeline.selection import selecting

    given = {k: v for k, v in vars(request).items() if v is not None}
    if isinstance(request, Merge):
        made = [selecting.merge(**given)]
    elif isinstance(request, Filter):
        made = [selecting.filter(**given)]
    else:
        if request.by is None and len(given) > 2:
            raise InputError("split: --validation and --test are for --by time or --by hash")
        made = [*selecting.split(**given).values()]
    return {"datasets": [described(result_of(d.folder, d.manifest)) for d in made]}


def show(result: Mapping[str, Any]) -> Shown:
    """Return a line for each dataset, and the caveats of all."""
    lines = [
        f"{d['dataset']}: {d['episodes']:,} episodes, {d['decisions']:,} decisions, "
        f"{d['bytes'] / 1e6:,.1f} MB, digest {d['digest'][:12]}"
        for d in result["datasets"]
    ]
    warnings = [text for dataset in result["datasets"] for text in caveats_of(dataset)]
    return Shown(lines, result["datasets"], warnings=warnings)


COMMANDS: Final = {
    "filter": Command(
        "hindcast filter demo/dataset --where 'return < -50' --out demo/bad",
        Filter,
        "Whole episodes are kept, which meet all conditions. A dataset whose episodes were\n"
        "selected by number or by --where carries a warning: estimates from it, and agents that\n"
        "learn from it, are biased by the selection. `hindcast show` prints the lineage, and\n"
        "`hindcast verify DIR --parent DATASET` selects the episodes again.",
    ),
    "merge": Command(
        "hindcast merge demo/a demo/b --out demo/both",
        Merge,
        "The datasets have one scenario with the same settings, seed and workload; behaviours and\n"
        "windows may differ. An episode is known by behaviour, repetition (column seed) and\n"
        "window: one that several datasets have is taken once. Of logs of decisions, selections\n"
        "of one log can be merged.",
    ),
    "split": Command(
        "hindcast split demo/dataset --out demo/parts",
        Split,
        "With --by, only windows of the train split are divided, so that nothing that was kept\n"
        "from training gets into it. Of a log of decisions, windows are its units.",
    ),
}
