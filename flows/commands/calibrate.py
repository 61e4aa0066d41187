"""`hindcast calibrate`: tables and figures of papers, from our simulators and agents."""

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.commands.report import rows_of
from hindcast.flows.progress import progress
from hindcast.pipeline.calibration import CALIBRATIONS
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.storage.location import location

# Table -> number of folders that it needs, and the options that it reads.
_TABLES: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    **dict.fromkeys(CALIBRATIONS, (0, ("episodes", "seed"))),
    "rlscheduler": (0, ("episodes",)),  # the sequences of its tables are drawn with their own seed
    "thermal": (0, ()),  # one record, nothing is drawn
    "multicluster-scores": (1, ("policies",)),
    "sliding": (1, ("recipe", "overrides", "policies", "last")),
    "fitness-correlation": (2, ("recipe", "overrides", "split", "windows")),
    "fitness-points": (2, ("recipe", "overrides", "split", "windows", "seed")),
    "thermal-choices": (2, ("split", "seed")),
}
_NEEDED: Final = {
    "multicluster-scores": "policies", "sliding": "recipe", "fitness-correlation": "recipe",
    "fitness-points": "recipe",
}  # fmt: skip
_POINTS: Final = 500  # candidates of fitness-points
_FLAGS: Final = {
    "overrides": "--set",
    "policies": "--policy",
}  # flags that differ from the field's name


@dataclass(frozen=True)
class Request:
    """Table to print, and its sources."""

    table: p.Name = p.argument(
        "deferrable, multicluster, rlscheduler, thermal, or one of the tables above",
        metavar="TABLE",
    )
    folders: tuple[p.Folder, ...] = p.argument(
        "folders that the table is made from, as shown above", default=()
    )
    episodes: p.Count | None = p.option(
        "episodes per row (default: that of the table)", default=None
    )
    seed: p.Seed = p.option("seed of all random draws", default=0)
    recipe: p.Name = p.option(
        "path or id of the recipe that the agents play", default="", metavar="RECIPE"
    )
    overrides: tuple[p.Override, ...] = p.overrides()
    policies: tuple[p.Name, ...] = p.option(
        "policies to compare with", default=(), flag="--policy", metavar="POLICY"
    )
    split: p.Name = p.option("split whose windows are played", default="test")
    windows: p.Count = p.option("windows at most, evenly spaced", default=20)
    last: p.Seed | None = p.option(
        "last window (default: the last one played)", default=None, metavar="WINDOW"
    )
    out: p.Folder | None = p.option(
        "file for the rows as CSV, beside printing them", default=None, metavar="FILE"
    )


def check(request: Request) -> None:
    """Raise InputError if the table is unknown, or does not read the given folders or options."""
    if request.table not in _TABLES:
        raise unknown_name("calibration", request.table, _TABLES)
    count, reads = _TABLES[request.table]
    if len(request.folders) != count:
        raise InputError(
            f"calibrate: {request.table} needs {count} folders, not {len(request.folders)}"
        )
    for field in fields(request)[2:]:
        flag, value = _FLAGS.get(field.name, f"--{field.name}"), getattr(request, field.name)
        if field.name not in {*reads, "out"} and value != field.default:
            raise InputError(f"calibrate: {request.table} has no option {flag}")
        if field.name == _NEEDED.get(request.table) and not value:
            raise InputError(f"calibrate: {request.table} needs {flag}")


def run(request: Request) -> dict[str, Any]:
    """Make the table, write it if a file is given, and return its lines and rows."""
    result = _table(request)
    if request.out is not None:
        import polars as pl

        from hindcast.pipeline.storage.files import make_folder, write_text

        file = location(request.out)
        make_folder(file.parent)
        table = pl.DataFrame(result["rows"], infer_schema_length=None)
        lists = pl.col(pl.List(pl.Int64)).cast(pl.List(pl.String)).list.join(" ")
        write_text(file, table.with_columns(lists).write_csv())
    return result


def _table(request: Request) -> dict[str, Any]:
    """Return the lines and rows of the table."""
    folders = [location(folder) for folder in request.folders]
    if request.table == "multicluster-scores":
        from hindcast.pipeline.calibration.multicluster_scores import comparisons

        return rows_of(comparisons(folders[0], request.policies))
    if request.table in CALIBRATIONS:
        return _calibration(request)
    if request.table == "thermal-choices":
        return _choices(request)
    from hindcast.pipeline.recipes.loading import load_recipe

    recipe = load_recipe(request.recipe, request.overrides)
    if request.table == "sliding":
        from hindcast.pipeline.scenarios import load_scenario
        from hindcast.policies.papers.deepjs.sliding import slide
        from hindcast.policies.registry import resolve

        spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
        rules = [resolve(name, recipe.scenario, spec) for name in request.policies]
        return rows_of(slide(folders[0], recipe, rules, last=request.last))
    import numpy as np
    import polars as pl

    from hindcast.policies.networks.checkpoint import load_policy
    from hindcast.policies.papers.deepjs.fitness_correlation import compare, points

    windows = recipe.windows(request.split)
    sample = windows[:: -(-len(windows) // request.windows)]
    first, second = (load_policy(folder) for folder in folders)
    if request.table == "fitness-points":
        rng = np.random.default_rng(request.seed)
        return rows_of(pl.DataFrame(points(first, second, recipe, sample, _POINTS, rng)))
    comparison = asdict(compare(first, second, recipe, sample))
    row = {k: None if v != v else v for k, v in comparison.items()} | {"windows": sample}  # noqa: PLR0124
    return {"lines": [f"{name:<12}{value}" for name, value in row.items()], "rows": [row]}


def _choices(request: Request) -> dict[str, Any]:
    """Return the table of a log and a training of `thermal`."""
    import numpy as np

    from hindcast.pipeline import dataset as ds
    from hindcast.policies.papers.thermal_report.choices import choices

    log, run = request.folders
    rng = np.random.default_rng(request.seed)
    return rows_of(choices(ds.open(log), location(run), request.split, rng))


def _calibration(request: Request) -> dict[str, Any]:
    """Return the calibration table of a scenario, beside the paper's numbers."""
    from hindcast.pipeline.inspection.list import aligned
    from hindcast.policies.heuristics import heuristics

    module = importlib.import_module(CALIBRATIONS[request.table])
    sized = {} if request.episodes is None else {"episodes": request.episodes}
    with progress(f"calibrate {request.table}") as tell:
        table = module.calibrate(
            heuristics(request.table), seed=request.seed, progress=tell, **sized
        )
    rows: list[dict[str, Any]] = table.to_dicts()
    columns = list(rows[0])
    cells = [columns, *([_cell(row[c]) for c in columns] for row in rows)]
    return {"lines": aligned(cells), "rows": rows}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if 0.0 < abs(value) < 0.005 else f"{value:.2f}"


def show(result: Mapping[str, Any]) -> Shown:
    """Return the table."""
    return Shown(**result)


COMMANDS: Final = {"calibrate": Command(
    "hindcast calibrate multicluster --episodes 50",
    Request,
    "Settings that a paper does not publish were fitted; the table shows how well they match. The\n"
    "table of rlscheduler shows rules in the published simulator beside the published numbers,\n"
    "and that of thermal the record of the 2018 report's Figure 4.\n"
    "\n"
    "Other tables, made from evaluations or trained agents:\n"
    "  multicluster-scores EVALUATION --policy P...   Liu et al., Tables II and III: missed\n"
    "      deadlines, delay, Score-A to Score-D of every policy against each P\n"
    "  sliding RUN --recipe R                         DeepJS, Figure 4: cost of each window to\n"
    "      an agent before it is trained on the window (train-online --checkpoint-every)\n"
    "  fitness-correlation A B --recipe R             DeepJS, Figure 5: correlation of the\n"
    "      scores of two agents for the same candidates, those of episodes of A\n"
    "  fitness-points A B --recipe R                  the two scores of 500 of these candidates\n"
    "  thermal-choices DATASET RUN                    2018 report, Figures 7 and 8: usage,\n"
    "      efficiency and distance of the servers that each checkpoint of RUN chooses at logged\n"
    "      decisions, and of the others (train --checkpoint-every)",
)}  # fmt: skip
