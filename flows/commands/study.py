"""`hindcast study`: the same agents, trained on several logs of one problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flows import parser as p
from flows.commands import Command, Shown
from flows.commands import run as whole_run

if TYPE_CHECKING:
    from pipeline.studies.study import Point


@dataclass(frozen=True)
class Request:
    """A recipe, what is varied of it, who is trained at each point, and the folder for all."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for a run per point, study.parquet and data_quality.md")
    agents: tuple[p.Name, ...] = p.option("agents to train at every point", metavar="NAME")
    vary: p.Name = p.option(
        "level of the behaviours, number of train windows, or epsilon of all behaviours",
        choices=("level", "windows", "epsilon"))  # fmt: skip
    values: tuple[p.Name, ...] = p.option(
        "value at each point, such as 6 24, 0 0.2 or random mixed (default: all known levels)",
        default=(), metavar="VALUE")  # fmt: skip
    seeds: tuple[p.Seed, ...] = p.option("seeds of the trainings (default 0)", default=(0,))
    steps: p.Count | None = p.option("gradient steps (default: the recipe's)", default=None)
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    command: str = p.hidden("command line that is kept in the runs", "")

    def points(self) -> "list[Point]":
        """Return the points of the study; RecipeError where it is not valid."""
        from pipeline.studies.study import plan

        return plan(
            self.recipe, self.overrides, self.agents, self.seeds, self.steps, self.vary, self.values
        )


def check(request: Request) -> None:
    """Raise for a study whose points are not all valid runs."""
    for point in request.points():
        whole_run.check(whole_run.Request(request.recipe, request.out, tuple(point.overrides)))


def run(request: Request) -> dict[str, Any]:
    """Run every point, and compare them."""
    from flows.runs.study import run_study

    return run_study(request)


def show(result: Mapping[str, Any]) -> Shown:
    """Return where the table and its page are."""
    line = f"{result['study']}: {result['points']} points"
    return Shown([line, result["page"]])


COMMANDS: Final = {"study": Command(
    "hindcast study slots-deeprm-v1 --agents cql --vary windows --values 20 200 --out study",
    Request,
    recorded=True,
)}  # fmt: skip
