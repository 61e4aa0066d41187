"""`hindcast study`: train the same agents on several logs of one problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Call, Command, Shown, directly
from hindcast.flows.commands import run as whole_run
from hindcast.flows.progress import note
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    from hindcast.pipeline.evaluation.studies.study import Point


@dataclass(frozen=True)
class Request:
    """Recipe, the property that is varied, the agents to train, and the folder for all runs."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for a run per point, study.parquet and data_quality.md")
    agents: tuple[p.Name, ...] = p.option("agents to train at every point", metavar="NAME")
    vary: p.Name = p.option(
        "level of the behaviours, number of train windows, or epsilon of all behaviours",
        choices=("level", "windows", "epsilon"),
    )
    values: tuple[p.Name, ...] = p.option(
        "value at each point, such as 6 24, 0 0.2 or random mixed (default: all known levels)",
        default=(), metavar="VALUE")  # fmt: skip
    seeds: tuple[p.Seed, ...] = p.option("seeds of the trainings (default 0)", default=(0,))
    steps: p.Count | None = p.option("gradient steps (default: the recipe's)", default=None)
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in the runs", "")
    runner: p.Runner = p.runner()
    address: str = p.address()

    def points(self) -> "list[Point]":
        """Return the points of the study. Raises RecipeError if it is not valid."""
        from hindcast.pipeline.evaluation.studies.study import plan

        return plan(
            self.recipe, self.overrides, self.agents, self.seeds, self.steps, self.vary, self.values
        )


def check(request: Request) -> None:
    """Raise InputError unless all points of the study are valid runs."""
    runners.check(request)
    for point in request.points():
        whole_run.check(whole_run.Request(request.recipe, request.out, tuple(point.overrides)))


def run(request: Request, call: Call = directly) -> dict[str, Any]:
    """Run the points through `call`, then write the tables that compare them.

    Finished points are skipped. Raises RecipeError if the study is not valid, and DatasetError if
    `out` holds another study.
    """
    from hindcast.pipeline.storage.locks import writing

    with writing(location(request.out)):
        return _run(request, call)


def _run(request: Request, call: Call) -> dict[str, Any]:
    from hindcast.flows.runs.stages import run_stages
    from hindcast.pipeline.evaluation.studies.page import study_csv, study_markdown
    from hindcast.pipeline.evaluation.studies.study import NAME, TABLE, collect
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.storage.files import (
        make_folder,
        table_writer,
        write_atomically,
        write_json,
        write_text,
    )

    place, loaded = location(request.out), load_recipe(request.recipe, request.overrides)
    points = request.points()
    for number, point in enumerate(points, start=1):
        note(f"point {number} of {len(points)}: {point.name}")
        stages = whole_run.Request(
            request.recipe, str(place / point.name), tuple(point.overrides), request.workers,
            request.command,
        )  # fmt: skip
        run_stages(stages, call)
    table = collect(place, request.vary, points, loaded, request.command)
    make_folder(place)
    write_atomically(place / TABLE, table_writer(table))
    content, page = study_csv(table), place / "data_quality.md"
    write_atomically(place / "data_quality.csv", lambda path: path.write_bytes(content))
    write_text(page, study_markdown(content, "data_quality.csv"))
    listed = [{"name": point.name, "value": point.value} for point in points]
    about = {"kind": "study", "recipe": loaded.id, "vary": request.vary, "points": listed}
    write_json(place / NAME, about)
    return {"study": str(place / TABLE), "points": len(points), "page": str(page)}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the paths of the table and its page."""
    line = f"{result['study']}: {result['points']} points"
    return Shown([line, result["page"]])


COMMANDS: Final = {"study": Command(
    "hindcast study slots-deeprm-v1 --agents cql --vary windows --values 20 200 --out study",
    Request,
    recorded="always",
)}  # fmt: skip
