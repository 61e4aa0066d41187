"""`hindcast build`: build the dataset of a recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown, caveats_of
from hindcast.flows.progress import progress
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Recipe to build, and the folder for its dataset."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for the dataset; a finished dataset there is not built again")
    overrides: tuple[p.Override, ...] = p.overrides()
    workers: p.Workers = p.workers()
    append: bool = p.option(
        "add the recipe's episodes to the finished dataset in the folder, as new parts",
        default=False,
    )
    append_to: str = p.option(
        "append to the dataset with this digest, as `hindcast show` prints it; appends a recipe "
        "again that was appended before", default="", metavar="DIGEST")  # fmt: skip
    trace: p.Folder | None = p.trace()
    runner: p.Runner = p.runner()
    address: str = p.address()

    def settings(self) -> tuple[str, ...]:
        """Return the overrides of the recipe, that of its trace included."""
        return p.with_trace(self.overrides, self.trace)


def check(request: Request) -> None:
    """Raise InputError if the recipe is not valid, or does not fit the dataset with --append."""
    runners.check(request)
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.workload_source import check_trace
    from hindcast.policies.registry import behaviours

    loaded = load_recipe(request.recipe, request.settings())
    check_trace(loaded, request.trace)
    behaviours(loaded)
    if request.append or request.append_to:
        from hindcast.pipeline.dataset.append_history import check_fits
        from hindcast.pipeline.dataset.manifest import read_manifest

        check_fits(read_manifest(location(request.out)).recipes, loaded, request.out)


def run(request: Request) -> dict[str, Any]:
    """Build the dataset of a recipe, or append to it; an interrupted build is completed."""
    from hindcast.pipeline.dataset.building.append import append
    from hindcast.pipeline.dataset.building.build import build
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.registry import behaviours

    loaded = load_recipe(request.recipe, request.settings())
    policies, out = behaviours(loaded), location(request.out)
    options: dict[str, Any] = {"workers": request.workers, "elsewhere": _elsewhere()}
    if not (request.append or request.append_to):
        with progress(f"build {loaded.id}") as tell:
            return result_of(build(loaded, policies, out, progress=tell, **options))
    with progress(f"append {loaded.id}") as tell:
        dataset = append(loaded, policies, out, to=request.append_to, progress=tell, **options)
    if not dataset.appended_before:
        return result_of(dataset)
    note = f"nothing was added: {loaded.id} was appended before"
    hint = f"to append it once more, use --append-to {dataset.digest[:12]}"
    return {**result_of(dataset), "note": note if request.append_to else f"{note}; {hint}"}


def _elsewhere() -> Any:
    """Return a function that has parts recorded on the runner of the context, if there is one."""
    runner = runners.running()
    if runner is None:
        return None
    from hindcast.flows.units import record_parts
    from hindcast.pipeline.dataset.building.shared_plan import share

    def elsewhere(plan: Any, parts: Sequence[int], tell: Callable[[int], None]) -> None:
        for done, _ in runner.map_units(record_parts, parts, **share(plan)):
            tell(len(done))

    return elsewhere


def result_of(dataset: Any) -> dict[str, Any]:
    """Return the result of a command that wrote this dataset."""
    from hindcast.pipeline.workloads.caveats import to_json

    return {
        "dataset": str(dataset.folder),
        "episodes": dataset.episodes,
        "decisions": dataset.decisions,
        "bytes": dataset.bytes,
        "digest": dataset.digest,
        "caveats": to_json(dataset.caveats),
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return the size and the digest of the dataset, and a note if nothing was added to it."""
    line = (
        f"{result['dataset']}: {result['episodes']:,} episodes, {result['decisions']:,} decisions, "
        f"{result['bytes'] / 1e6:,.1f} MB, digest {result['digest'][:12]}"
    )
    notes = [result["note"]] if "note" in result else []
    return Shown([line, *notes], warnings=caveats_of(result))


COMMANDS: Final = {"build": Command(
    "hindcast build binpack-synthetic-v1 --out datasets/demo --workers 2",
    Request,
    "An interrupted build continues where it stopped and ends in the same bytes. With --append,\n"
    "the recipe may have other behaviours, episodes and windows than the existing dataset, but\n"
    "must describe the same problem; the existing parts are not changed. Given again, the same\n"
    "command adds nothing; to append a recipe once more, give --append-to with the digest that\n"
    "the dataset has now.",
    recorded="asked",
)}  # fmt: skip
