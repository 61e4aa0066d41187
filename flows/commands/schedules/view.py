"""`hindcast view`: one or two schedules as a page, and where their policies differ; episodes.

A dataset without policies is drawn decision by decision. With policies, it is the recipe that it
was built from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, caveats_of
from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    from hindcast.pipeline.schedules.difference import Comparison
    from hindcast.pipeline.schedules.schedule import Schedule
    from hindcast.pipeline.workloads.caveats import Caveat

_JOBS: Final = "jobs"  # folder of schedules in the folders of whatif and evaluate
_SCHEDULE: Final = ".parquet"


@dataclass(frozen=True)
class Request:
    """Schedules, recipe or dataset to draw, and the file of the page."""

    a: p.Folder = p.argument(
        "schedule (.parquet), folder that `hindcast whatif` or `evaluate --jobs` wrote, recipe, or "
        "dataset, whose episodes are shown decision by decision",
        metavar="A",
    )
    b: p.Folder = p.argument(
        "schedule or folder that A is compared with, of the same window", default="", nargs="?",
        metavar="B",
    )  # fmt: skip
    policies: tuple[p.Name, ...] = p.option(
        "policy whose schedule is drawn: of a folder, or played on a window of a recipe; one or "
        "two", default=(), flag="--policy", action="extend", nargs="+", metavar="POLICY",
    )  # fmt: skip
    window: Annotated[int, p.Bounds("W", ge=0)] | None = p.option(
        "window of the recipe (default: the first of its test split)", default=None
    )
    play: Annotated[int, p.Bounds("N", ge=0)] = p.option(
        "number of the play of a policy that draws, as `seed` in scores.parquet", default=0
    )
    out: p.Folder = p.option("file of the page", default="view.html", metavar="FILE.html")
    overrides: tuple[p.Override, ...] = p.overrides()
    trace: p.Folder | None = p.trace()

    @property
    def source(self) -> str:
        """The recipe, as `hindcast schedule` calls it."""
        return self.a


def check(request: Request) -> None:
    """Raise InputError if there is nothing to draw, or too much."""
    if location(request.out).suffix != ".html":
        raise InputError(f"--out {request.out}: the page is one file, expected a name in .html")
    if _is_dataset(request):
        _refuse_options(request, "a recipe, and without --policy a dataset is shown")
        if request.b:
            raise InputError(f"{request.a} is a dataset, whose page shows it alone; leave B out")
        return
    if _is_played(request.a):
        from hindcast.flows.runs.schedules import behaviours_of, job_of

        if request.b:
            raise InputError(f"{request.a} is a recipe: two policies of it are two --policy, not B")
        if len(request.policies) not in {1, 2}:
            raise InputError(
                f"{request.a}: a recipe is played, expected one or two policies: --policy A B"
            )
        behaviours_of(job_of(request)[0].recipe, request.policies)
        return
    _refuse_options(request, f"a recipe, and {request.a} is none")
    places = list(_files(request))
    if len(places) > 2:
        raise InputError(f"view: a page has one schedule or two, expected no {len(places)}")


def _is_dataset(request: Request) -> bool:
    """Return whether the episodes of a dataset are shown."""
    return not request.policies and (location(request.a) / "manifest.json").is_file()


def _refuse_options(request: Request, why: str) -> None:
    for name in ("window", "play", "trace", "overrides"):
        if getattr(request, name):
            flag = "set" if name == "overrides" else name
            raise InputError(f"--{flag} is for {why}; leave it out")


def _is_played(place: str) -> bool:
    """Return whether a place is neither a schedule nor a folder of schedules."""
    path = location(place)
    return path.suffix != _SCHEDULE and not (path.is_dir() and (path / _JOBS).is_dir())


def _files(request: Request) -> Iterator[Path]:
    """Yield the files of the schedules."""
    folders = 0
    for place in filter(None, (request.a, request.b)):
        path = location(place)
        if path.suffix == _SCHEDULE:
            if not path.is_file():
                raise InputError(f"{place}: no such file, expected a schedule")
            yield path
            continue
        if _is_played(place):
            raise InputError(
                f"{place}: expected a schedule ({_SCHEDULE}) or a folder with {_JOBS}/ in it, as "
                "`hindcast whatif` and `evaluate --jobs` write it"
            )
        folders += 1
        known = {one.stem: one for one in sorted((path / _JOBS).glob(f"*{_SCHEDULE}"))}
        for name in request.policies:
            if name not in known:
                raise unknown_name(f"policy of {path / _JOBS}", name, known)
            yield known[name]
        if not request.policies:
            raise InputError(
                f"{place}: expected --policy, one or two of {', '.join(known) or 'no schedules'}"
            )
    if request.policies and not folders:
        raise InputError("--policy is for folders and recipes, and a schedule has one policy")


def run(request: Request) -> dict[str, Any]:
    """Read or play the schedules, and write the page."""
    if _is_dataset(request):
        return _episodes(request)
    from hindcast.pipeline.report.view.page import write_view
    from hindcast.pipeline.whatif.verdict import sentence_of
    from hindcast.pipeline.workloads.caveats import to_json

    comparison: Comparison | None = None
    caveats: Sequence[Caveat] = ()
    if _is_played(request.a):
        schedules, comparison, caveats = _played(request)
    else:
        from hindcast.pipeline.schedules.schedule import read_schedule

        schedules = [read_schedule(path) for path in _files(request)]
    texts = [caveat.text for caveat in caveats]
    page = write_view(schedules, location(request.out), comparison, list(map(sentence_of, texts)))
    first = comparison.first if comparison else None
    return {
        "page": str(page),
        "bytes": page.stat().st_size,
        "policies": [schedule.facts["policy"] for schedule in schedules],
        "jobs": [schedule.jobs.height for schedule in schedules],
        "difference": first.sentence if first else None,
        "caveats": to_json(caveats),
    }


def _episodes(request: Request) -> dict[str, Any]:
    """Write the page of the episodes of a dataset."""
    from hindcast.pipeline import dataset as datasets
    from hindcast.pipeline.dataset.manifest import read_manifest
    from hindcast.pipeline.report.view.episodes import write_episodes
    from hindcast.pipeline.whatif.verdict import sentence_of
    from hindcast.pipeline.workloads.caveats import to_json

    dataset, out = datasets.open(request.a), location(request.out)
    caveats = read_manifest(location(request.a)).caveats
    texts = [sentence_of(caveat.text) for caveat in caveats]
    episodes = write_episodes(dataset, dataset.iter_episodes(), out, texts)
    return {
        "page": str(out), "bytes": out.stat().st_size, "episodes": episodes, "difference": None,
        "caveats": to_json(caveats),
    }  # fmt: skip


def _played(
    request: Request,
) -> "tuple[list[Schedule], Comparison | None, tuple[Caveat, ...]]":
    """Play the policies on a window of the recipe; compare two of them."""
    from hindcast.flows.runs.schedules import behaviours_of, job_of
    from hindcast.pipeline.schedules.difference import compare_window
    from hindcast.pipeline.schedules.windows import schedule_window
    from hindcast.pipeline.workloads.caveats import of_provenance

    job, window = job_of(request)
    caveats = of_provenance(job.workload.provenance)
    behaviours = behaviours_of(job.recipe, request.policies)
    if len(behaviours) == 1:
        return [schedule_window(job, behaviours[0], window, request.play)], None, caveats
    comparison = compare_window(job, window, behaviours[0], behaviours[1], request.play)
    return list(comparison.schedules), comparison, caveats


def show(result: Mapping[str, Any]) -> Shown:
    """Return where the policies first differ, and the file of the page."""
    size = f"{result['page']} ({result['bytes'] / 1e3:,.0f} kB)"
    lines = [*filter(None, [result["difference"]]), size]
    return Shown(lines, warnings=caveats_of(result))


COMMANDS: Final = {"view": Command(
    "hindcast view queue-lublin1-v1 --policy fcfs_easy saf_easy --out view.html",
    Request,
    "Other forms:\n"
    "  hindcast view fcfs_easy.parquet saf_easy.parquet\n"
    "  hindcast view whatif-folder --policy fcfs_easy saf_easy\n"
    "  hindcast view dataset-folder",
)}  # fmt: skip
