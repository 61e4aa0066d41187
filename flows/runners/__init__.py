"""Runners: where the units of a command run, through Prefect's task runners.

    local    threads of this process, as without a runner
    dask     processes of Dask: `--workers` of them on this machine, or the workers of a scheduler
    ray      processes of Ray: `--workers` of them on this machine, or the workers of a cluster

See `hindcast.flows.runners.runner` for units, and `hindcast.flows.units` for the work that they do.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows.commands import Call
from hindcast.flows.progress import note
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.extras import require

if TYPE_CHECKING:
    from hindcast.flows.runners.runner import Runner

_running: ContextVar["Runner | None"] = ContextVar("hindcast_runner", default=None)


def running() -> "Runner | None":
    """Return the runner of the context; None if work runs in this process."""
    return _running.get()


@contextlib.contextmanager
def started(request: Any) -> Iterator[None]:
    """Start the runner of a request, if it asks for one, for as long as the context is open."""
    module = RUNNERS[getattr(request, "runner", LOCAL)]
    if not module:
        yield
        return
    check(request)
    start = importlib.import_module(module).started
    with start(request.address, request.workers) as runner:
        token = _running.set(runner)
        try:
            yield
        finally:
            _running.reset(token)


def check(request: Any) -> None:
    """Raise InputError if the runner of a request is not installed or its address has no use."""
    name = request.runner
    if name == LOCAL:
        if request.address:
            raise InputError(
                f"--address is {request.address!r}, but the runner is {LOCAL}, which has none; "
                "give --runner dask or --runner ray too"
            )
        return
    require(f"--runner {name}", f"prefect_{name}")


def calls(requests: Sequence[Any], call: Call) -> Iterator[Callable[[], dict[str, Any]]]:
    """Yield a function for each request of a training, in order, that returns its result.

    Without a runner, the function trains through `call`. With one, all trainings run on its
    workers, and the function waits for its own.
    """
    runner = running()
    if runner is None:
        yield from (partial(call, request) for request in requests)
        return
    if requests:
        note(f"{len(requests)} trainings are handed out to {runner.name}")
    yield from runner.calls(requests)


def asks_for_runner(request: Any) -> bool:
    """Return whether a request asks for a runner other than this process."""
    return bool(getattr(request, "runner", LOCAL) != LOCAL)


def refuse_direct(request: Any) -> None:
    """Raise InputError if a request asks for a runner, since the command runs without Prefect."""
    if asks_for_runner(request):
        raise InputError(
            f"--runner {request.runner} runs through Prefect, which --direct leaves out; give one "
            "of the two"
        )


LOCAL: Final = "local"
# Name -> module whose `started` starts a runner, given an address and a number of processes; "" for
# work in this process.
RUNNERS: Final[Mapping[str, str]] = {
    LOCAL: "",
    "dask": f"{__name__}.dask",
    "ray": f"{__name__}.ray",
}
