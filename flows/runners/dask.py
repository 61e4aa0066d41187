"""Dask as a runner: worker processes of this machine, or those of a scheduler."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

from hindcast.flows.runners.runner import Runner
from hindcast.flows.runners.workers import Facts, check_workers, worker_facts
from hindcast.pipeline.errors import HindcastError, InputError

_ANSWER_S: Final = 10  # time that a scheduler has to answer
_SPAWN: Final = "distributed.nanny.pre-spawn-environ"  # setting of Dask: environment of workers
_TRIM: Final = "MALLOC_TRIM_THRESHOLD_"


@contextlib.contextmanager
def started(address: str, workers: int) -> Iterator[Runner]:
    """Start so many processes, or use the scheduler at the address, while the context is open.

    Raises InputError if no scheduler answers there, or if its workers cannot do the work.
    """
    from prefect_dask.task_runners import DaskTaskRunner

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):  # what it says is in the errors, or of no consequence
            logging.getLogger(name).setLevel(logging.CRITICAL)
    settings: dict[str, Any]
    if address:
        _check_address(address)
        settings = {"address": address, "client_kwargs": {"timeout": _ANSWER_S}}
        where = f"the Dask scheduler at {address}"
    else:
        # A free port of the loopback interface: otherwise two commands would want the same one.
        local = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        # Without a limit, as threads have none: Dask would kill a process for its share of memory.
        size = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": 0}
        settings = {"cluster_kwargs": {**local, **size}}
        where = "Dask on this machine"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_memory_kept())
        runner = stack.enter_context(DaskTaskRunner(**settings))
        try:
            client = runner.client
        except Exception as error:
            said = " ".join(str(error).split())[:200] or type(error).__name__
            if not address:
                raise HindcastError(f"{where} did not start ({said})") from error
            raise InputError(
                f"{where} does not answer ({said}); start it with `dask scheduler`, or leave out "
                "--address"
            ) from error
        if address:
            check_workers(lambda: _facts(client), where)
        yield Runner(where, runner.submit, lambda: sum(client.nthreads().values()))


@contextlib.contextmanager
def _memory_kept() -> Iterator[None]:
    """Let workers that Dask starts here keep freed memory, as processes do without Dask.

    Dask makes them return it to the system at every 64 KiB. Recording then has twenty times as many
    page faults, and takes a third longer.
    """
    import dask

    environment = {**dask.config.get(_SPAWN)}
    environment.pop(_TRIM, None)
    with dask.config.set({_SPAWN: environment}):
        yield


def _facts(client: Any) -> list[Facts]:
    """Return the facts of all workers, without those that end meanwhile."""
    found: list[Facts] = []
    for facts in client.run(worker_facts, on_error="return").values():
        if isinstance(facts, OSError):  # the scheduler cannot reach that worker
            continue
        if isinstance(facts, Exception):
            raise facts
        found.append(facts)
    return found


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
