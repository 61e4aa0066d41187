"""`hindcast verify`: recompute every claim of a dataset's manifest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown
from hindcast.flows.progress import note, progress
from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Dataset to verify."""

    dataset: p.Folder = p.argument("folder of a dataset")
    workers: p.Workers = p.workers()
    quick: bool = p.option(
        "replay the decisions, but draw nothing again and do not read the trace", default=False
    )
    trace: p.Folder | None = p.option(
        "raw trace that the workload came from, if it is not below $HINDCAST_TRACES", default=None,
        metavar="PATH")  # fmt: skip
    parents: tuple[p.Folder, ...] = p.option(
        "datasets that this one was made of, in their order: its episodes are selected again and "
        "compared", default=(), flag="--parent", action="extend", metavar="DIR")  # fmt: skip
    runner: p.Runner = p.runner()
    address: str = p.address()


def check(request: Request) -> None:
    """Raise InputError if the runner cannot be used, or a trace is given that would not be read."""
    runners.check(request)
    if request.quick and request.trace is not None:
        raise InputError("verify: --quick does not read the trace; leave out --trace or --quick")


def run(request: Request) -> dict[str, Any]:
    """Recompute every claim of a dataset. Raises VerificationFailed for the first that fails."""
    from hindcast.pipeline.dataset.verification import verify as verification
    from hindcast.pipeline.selection.selecting import check_parents
    from hindcast.policies.registry import recorded_behaviours

    dataset = location(request.dataset)
    trace = None if request.trace is None else location(request.trace)

    def verified(manifest: str | None) -> Any:
        with progress("verify") as tell:
            return verification.verify(
                dataset, recorded_behaviours(dataset), tell, workers=request.workers,
                quick=request.quick, trace=trace, elsewhere=_elsewhere(dataset, manifest, request),
                parents=partial(check_parents, places=request.parents) if request.parents else None,
            )  # fmt: skip

    while True:
        before = _manifest(dataset)
        try:
            result = verified(before)
            break
        except (VerificationFailed, InputError, OSError):
            # An append that ends meanwhile removes the table of episodes that was being read.
            if before == _manifest(dataset):
                raise
            note(f"{dataset}: this dataset was appended to meanwhile; verifying it from the start")
    return {
        "dataset": str(dataset),
        "checks": [{"check": name, "detail": detail} for name, detail in result.checks],
    }


def _elsewhere(dataset: Path, manifest: str | None, request: Request) -> Any:
    """Return a function that has parts replayed on the runner of the context, if there is one."""
    runner = runners.running()
    if runner is None or manifest is None:
        return None
    from hindcast.flows.units import replay_parts
    from hindcast.pipeline.dataset.verification.replayed import Replayed
    from hindcast.pipeline.storage.location import is_remote

    folder = str(dataset if is_remote(dataset) else dataset.absolute())

    def elsewhere(parts: Sequence[int], tell: Callable[[int], None]) -> Replayed:
        pending, replayed, faults = set(parts), dict[int, Replayed](), dict[int, str]()
        fields = {"folder": folder, "manifest": manifest, "quick": request.quick}
        for done, result in runner.map_units(replay_parts, parts, **fields):
            pending -= set(done)
            names = ("recomputed", "unequal", "reason")
            replayed[done[0]] = Replayed(*(result[name] for name in names))
            if result["fault"]:
                faults[done[-1]] = result["fault"]
            if faults and min(faults) < min(pending, default=len(parts)):  # as without a runner
                raise VerificationFailed(faults[min(faults)])
            tell(len(done))
        return sum((replayed[first] for first in sorted(replayed)), Replayed())

    return elsewhere


def _manifest(dataset: Path) -> str | None:
    """Return the SHA-256 of the manifest, or None if it cannot be read."""
    from hindcast.pipeline.storage.files import require_file, sha256_file
    from hindcast.pipeline.storage.location import is_remote

    try:
        require_file(dataset / "manifest.json", links=is_remote(dataset))  # a store has no links
        return sha256_file(dataset / "manifest.json")
    except (InputError, OSError):
        return None


def show(result: Mapping[str, Any]) -> Shown:
    """Return one line per check."""
    checks = [f"  {c['check']}: {c['detail']}" for c in result["checks"]]
    return Shown([f"{result['dataset']}: verified", *checks])


COMMANDS: Final = {"verify": Command(
    "hindcast verify datasets/demo",
    Request,
    "The exit code is 1, with the reason, at the first claim that does not hold. The last line\n"
    "names what could not be compared.",
)}  # fmt: skip
