"""`hindcast compare`: where two policies differ on a window, and what came of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown


@dataclass(frozen=True)
class Request:
    """Window of a recipe, and two policies."""

    recipe: p.Name = p.recipe()
    a: p.Name = p.argument("policy as for `hindcast evaluate`", metavar="A")
    b: p.Name = p.argument("another policy", metavar="B")
    window: Annotated[int, p.Bounds("K", ge=0)] | None = p.option(
        "number of the window (default: the first of the test split)", default=None
    )
    play: Annotated[int, p.Bounds("N", ge=0)] = p.option(
        "number of the play of a policy that draws, as `seed` in scores.parquet", default=0
    )
    most: Annotated[int, p.Bounds("N", ge=0, le=1000)] = p.option(
        "costly decisions that are told", default=5
    )
    overrides: tuple[p.Override, ...] = p.overrides()
    trace: p.Folder | None = p.trace()


def check(request: Request) -> None:
    """Raise InputError for a recipe, policy or window that cannot be played."""
    from hindcast.flows.runs.schedules import behaviours_of, job_of

    behaviours_of(job_of(request)[0].recipe, (request.a, request.b))


def run(request: Request) -> dict[str, Any]:
    """Play the window under both policies and compare their decisions."""
    from hindcast.flows.runs.schedules import behaviours_of, job_of
    from hindcast.pipeline.schedules.difference import compare_window

    job, window = job_of(request)
    a, b = behaviours_of(job.recipe, (request.a, request.b))
    found = compare_window(job, window, a, b, request.play, request.most)
    return {
        "policies": [a.name, b.name], "window": window, "decisions": list(found.decisions),
        "first": None if found.first is None else found.first.to_json(),
        "differing": found.differing,
        "costliest": [one.to_json() for one in found.costliest],
        "mean_wait": [
            schedule.jobs.filter("counted")["wait_s"].mean() for schedule in found.schedules
        ],
    }  # fmt: skip


def show(result: Mapping[str, Any]) -> Shown:
    """Return the first decision that differs, and those that cost most."""
    return Shown(list(_lines(result)))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    (a, b), first = result["policies"], result["first"]
    counts = " and ".join(f"{count:,}" for count in result["decisions"])
    yield f"{a} and {b} on window {result['window']}: {counts} decisions"
    if first is None:
        yield "they never differ"
        return
    yield "the first that differs:"
    yield f"  {first['sentence']}"
    if result["differing"] is None:
        yield "what one would have chosen on the way of the other is not known: it draws or plans"
        return
    yield f"on the way of {a}, {b} would have chosen otherwise {result['differing']:,} times"
    if result["costliest"]:
        yield (
            "where the waits of the two jobs differ most, each job once (all later decisions "
            "contribute to the waits):"
        )
    for one in result["costliest"]:
        yield f"  {one['sentence']}"


COMMANDS: Final = {"compare": Command(
    "hindcast compare queue-lublin1-v1 fcfs_easy saf_easy --window 47",
    Request,
    "--json has all candidates with features, scores and probabilities. For a log, give the\n"
    "recipe.toml or run.toml that `hindcast whatif LOG` writes.",
)}  # fmt: skip
