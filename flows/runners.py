"""Runners: where the units of a command run, through Prefect's task runners.

    local    threads of this process, as without a runner
    dask     processes of Dask: `--workers` of them on this machine, or the workers of a scheduler

A unit is about 20 s of work, such as a few parts of a dataset. A task gets the folder and the
numbers of its items, writes its results to their final place, and returns a few small numbers. Dask
may compute a task again when a worker dies, so units leave alone what is there already.
"""

import contextlib
import importlib.util
import queue
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from flows.commands import Call, name_of
from flows.progress import note
from pipeline.errors import HindcastError, InputError
from pipeline.storage.location import is_remote, location
from pipeline.storage.versions import pip_install

_MOST: Final = 10_000  # items of one unit
_ANSWER_S: Final = 10  # time that a scheduler has to answer
_POLL_S: Final = 1.0  # between two looks at the number of workers

_PLACES: Final = frozenset({"dataset", "out", "recipe", "start", "imitate"})  # fields of requests

Unit = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Runner:
    """A task runner of Prefect that was started.

    Attributes:
        name: Name of the runner, for messages.
        submit: Function of a Prefect task and its parameters that returns a future of Prefect.
        threads: Function that returns how many tasks can run at the same time now.
    """

    name: str
    submit: Callable[[Any, dict[str, Any]], Any]
    threads: Callable[[], int]

    def calls(self, requests: Sequence[Any]) -> Iterator[Callable[[], dict[str, Any]]]:
        """Run the commands of requests on the workers, each as a task.

        Yields functions in the order of the requests; each waits for its command, and returns its
        result or raises its error.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        from flows import units

        futures = []
        for request in requests:
            recorded: Any = task(
                name=name_of(request), cache_policy=NO_CACHE, retries=0, persist_result=False
            )(units.command)
            given = {"name": name_of(request), "parameters": with_whole_paths(request)}
            with self._errors():
                futures.append(self.submit(recorded, given))
        for future in futures:
            yield partial(self._result_of, future)

    def _result_of(self, future: Any) -> dict[str, Any]:
        with self._errors():
            result: dict[str, Any] = future.result()
        return result

    def map_units(
        self, unit: Unit, items: Sequence[Any], **others: Any
    ) -> Iterator[tuple[list[Any], Mapping[str, Any]]]:
        """Call `unit(items=..., **others)` on the workers until all items are done.

        A unit stops after some time, see `flows.units`; the items that it has not done are handed
        out again, so no unit has to be measured beforehand. Yields the done items and the result of
        every unit, in any order. Raises the first error of a unit.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        recorded: Any = task(
            name=unit.__name__, cache_policy=NO_CACHE, retries=0, persist_result=False
        )(unit)
        left, at_work = deque(items), dict[Any, list[Any]]()
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waits = False
        while left or at_work:
            with self._errors():
                threads = self.threads()
            if not threads and not waits:
                note(f"{self.name}: there is no worker; waiting for one")
            waits = not threads
            while left and len(at_work) < max(threads, 1):
                size = min(-(-len(left) // max(threads, 1)), _MOST)
                given = [left.popleft() for _ in range(size)]
                with self._errors():
                    future = self.submit(recorded, {"items": given, **others})
                at_work[future.task_run_id] = given
                future.add_done_callback(ended.put)
            with contextlib.suppress(queue.Empty):
                future = ended.get(timeout=_POLL_S)
                with self._errors():
                    result = future.result()
                given, done = at_work.pop(future.task_run_id), int(result["done"])
                left.extendleft(reversed(given[done:]))
                yield given[:done], result

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise HindcastError in place of errors of the engine; those of units are unchanged."""
        try:
            yield
        except HindcastError:
            raise
        except Exception as error:
            kind, said = type(error).__name__, " ".join(str(error).split())[:300]
            raise HindcastError(
                f"{self.name}: the work was interrupted ({kind}: {said}); the same command "
                "continues where it stopped"
            ) from error


_running: ContextVar[Runner | None] = ContextVar("hindcast_runner", default=None)


def running() -> Runner | None:
    """Return the runner of the context; None if work runs in this process."""
    return _running.get()


@contextlib.contextmanager
def started(request: Any) -> Iterator[None]:
    """Start the runner of a request, if it asks for one, for as long as the context is open."""
    start = RUNNERS[getattr(request, "runner", LOCAL)]
    if start is None:
        yield
        return
    with start(request) as runner:
        token = _running.set(runner)
        try:
            yield
        finally:
            _running.reset(token)


def check(request: Any) -> None:
    """Raise InputError if the runner of a request is not installed or its address has no use."""
    if request.runner == LOCAL:
        if request.address:
            raise InputError(
                f"--address is {request.address!r}, but the runner is {LOCAL}, which has none; "
                "give --runner dask too"
            )
        return
    if importlib.util.find_spec("prefect_dask") is None:
        raise InputError(
            f"--runner {request.runner} needs the package prefect-dask; {pip_install('dask')}"
        )


def calls(requests: Sequence[Any], call: Call) -> Iterator[Callable[[], dict[str, Any]]]:
    """Yield a function for each request of a training, in order, that returns its result.

    Without a runner, the function trains through `call`. With one, all trainings run on its
    workers, and the function waits for its own.
    """
    runner = running()
    if runner is None:
        yield from (partial(call, request) for request in requests)
        return
    note(f"{len(requests)} trainings are handed out to {runner.name}")
    yield from runner.calls(requests)


def with_whole_paths(request: Any) -> dict[str, Any]:
    """Return the fields of a request, its folders and recipe as absolute paths or URLs."""
    values = dict(vars(request))
    for name in _PLACES.intersection(values):
        place = values[name] and location(values[name])
        if place and not is_remote(place) and (name != "recipe" or place.exists()):
            values[name] = str(place.absolute())
    return values


def refuse_direct(request: Any) -> None:
    """Raise InputError if a request asks for a runner, since the command runs without Prefect."""
    if getattr(request, "runner", LOCAL) != LOCAL:
        raise InputError(
            f"--runner {request.runner} runs through Prefect, which --direct leaves out; give one "
            "of the two"
        )


@contextlib.contextmanager
def _dask(request: Any) -> Iterator[Runner]:
    check(request)
    import logging

    from prefect_dask.task_runners import DaskTaskRunner

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):  # what it says is in the errors, or of no consequence
            logging.getLogger(name).setLevel(logging.CRITICAL)
    if request.address:
        _check_address(request.address)
        settings = {"address": request.address, "client_kwargs": {"timeout": _ANSWER_S}}
        where = f"the Dask scheduler at {request.address}"
    else:
        # A free port of the loopback interface: otherwise two commands would want the same one.
        local = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        # Without a limit, as threads have none: Dask would kill a process for its share of memory.
        size = {"n_workers": request.workers, "threads_per_worker": 1, "memory_limit": 0}
        settings = {"cluster_kwargs": {**local, **size}}
        where = "Dask on this machine"
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(DaskTaskRunner(**settings))
        try:
            client = runner.client
        except Exception as error:
            said = " ".join(str(error).split())[:200] or type(error).__name__
            if not request.address:
                raise HindcastError(f"{where} did not start ({said})") from error
            raise InputError(
                f"{where} does not answer ({said}); start it with `dask scheduler`, or leave out "
                "--address"
            ) from error
        if request.address:
            _check_workers(client, where)
        yield Runner(where, runner.submit, lambda: sum(client.nthreads().values()))


def _check_address(address: str) -> None:
    """Raise InputError for a text that is no address of Dask; its client prints a traceback."""
    from distributed.comm.addressing import get_address_host_port, resolve_address

    try:
        get_address_host_port(resolve_address(address), strict=True)
    except (ValueError, OSError) as error:
        raise InputError(
            f"--address {address!r} is not the address of a Dask scheduler ({error}); expected one "
            "such as tcp://10.0.0.5:8786, as `dask scheduler` prints it"
        ) from error


def _check_workers(client: Any, where: str) -> None:
    """Raise InputError if the workers cannot run units, or cannot reach Prefect's server."""
    from prefect.settings import get_current_settings

    from pipeline.dataset.manifest import versions

    try:
        found = client.run(worker_facts)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(
            f"{where}: its workers cannot run Hindcast ({said}); install the same version there"
        ) from error
    own = versions()
    for host, theirs in found.values():
        differ = [f"{n} {theirs.get(n)}, here {v}" for n, v in own.items() if theirs.get(n) != v]
        if differ:
            raise InputError(
                f"{where}: a worker on {host} has other versions ({'; '.join(differ)}); install "
                "the same versions on all machines"
            )
    server = urlsplit(get_current_settings().api.url or "")
    others = sorted({host for host, _ in found.values()} - {socket.gethostname()})
    if others and server.hostname in {"localhost", "127.0.0.1", "::1"}:
        raise InputError(
            f"{where} has workers on {others[0]}, which cannot reach Prefect's server on this "
            "machine; start one that they can reach, and name it in PREFECT_API_URL"
        )


def worker_facts() -> tuple[str, dict[str, str]]:
    """Return the name of this machine, and the versions of packages here."""
    from pipeline.dataset.manifest import versions

    return socket.gethostname(), versions()


LOCAL: Final = "local"
# Name -> function that starts the runner of a request; None for work in this process.
RUNNERS: Final[Mapping[str, Callable[[Any], Any] | None]] = {LOCAL: None, "dask": _dask}
