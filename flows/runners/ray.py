"""Ray as a runner: worker processes of this machine, or those of a cluster.

A cluster that is started here listens on the loopback interface alone, has a token that nobody else
knows, no dashboard, and keeps its files in a temporary folder. It ends with the command.
"""

import contextlib
import functools
import logging
import os
import re
import secrets
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hindcast.flows.runners.runner import Runner
from hindcast.flows.runners.workers import Facts, check_workers, worker_facts
from hindcast.pipeline.errors import HindcastError, InputError

_ANSWER_S: Final = 10.0  # time that a cluster has to answer
_JOIN_S: Final = 120.0  # time that a process has to tell its facts, its start included
_ATTEMPTS: Final = 3  # to connect to a cluster
_ADDRESS: Final = re.compile(r"ray://([^\s:/]+|\[[0-9a-f:]+\]):([0-9]{1,5})")
_STORE: Final = 80 << 20  # bytes of Ray's object store, the least that it takes: no row passes it
_LONGEST: Final = 40  # characters of a folder that Ray can name its sockets in

# Read by Ray when it is imported, and by the processes that it starts.
_QUIET: Final[Mapping[str, str]] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}
_OWN: Final[Mapping[str, str]] = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # despite its name: listen on 127.0.0.1 everywhere
    "RAY_AUTH_MODE": "token",
    "RAY_DEFAULT_DASHBOARD_AGENT_LISTEN_PORT": "0",
}
# Workers find Prefect's server by these; Ray hands over no environment.
_OF_PREFECT: Final = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_CLIENT_CUSTOM_HEADERS")


@contextlib.contextmanager
def started(address: str, workers: int) -> Iterator[Runner]:
    """Start so many processes, or use the cluster at the address, while the context is open.

    Raises InputError if no cluster answers there, or if its workers cannot do the work.
    """
    where = f"the Ray cluster at {address}" if address else "Ray on this machine"
    with contextlib.ExitStack() as stack:
        environment = dict(_QUIET)
        own: dict[str, Any] = {}
        if address:
            _check_address(address, where)
        else:
            folder = stack.enter_context(_folder())
            places = {"RAY_TMPDIR": folder, "TMPDIR": folder}  # also of workers that are killed
            environment |= {**_OWN, **places, "RAY_AUTH_TOKEN": _token()}
            own = {
                "num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE,
                "_temp_dir": folder,
            }  # fmt: skip
        stack.enter_context(_environment(environment, replace=not address))
        import ray

        logging.getLogger("ray").setLevel(logging.CRITICAL)  # what it says is in the errors
        settings = {
            "logging_level": "critical", "log_to_driver": False, "configure_logging": False,
            "runtime_env": {"env_vars": _of_workers()}, **own,
        }  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say is in the error
                runner = stack.enter_context(_connected(address, settings))
        except Exception as error:
            ray.shutdown()
            said = " ".join(str(error).split())[:200] or type(error).__name__
            if not address:
                raise HindcastError(f"{where} did not start ({said})") from error
            raise InputError(
                f"{where} cannot be used ({said}); start it with `ray start --head`, with the same "
                "version of Ray, or leave out --address"
            ) from error
        stack.callback(ray.shutdown)
        if address:
            check_workers(_facts, where)
        yield Runner(where, runner.submit, functools.partial(_threads, address))


@contextlib.contextmanager
def _connected(address: str, settings: Mapping[str, Any]) -> Iterator[Any]:
    """Connect Prefect's task runner to the cluster at the address, or to one that it starts.

    A cluster starts a process for every client by a fork in a process with many threads. Now and
    then that process ends before it listens; the next attempt gets another one.
    """
    import ray
    from prefect_ray.task_runners import RayTaskRunner

    with contextlib.ExitStack() as stack:
        for left in reversed(range(_ATTEMPTS)):
            runner = RayTaskRunner(address=address or None, init_kwargs=dict(settings))
            try:
                stack.enter_context(runner)
                break
            except ConnectionError as error:
                if not left or not _ended(error):
                    raise
                ray.shutdown()
        yield runner


def _ended(error: ConnectionError) -> bool:
    """Return whether the process of this client has ended, rather than that no cluster answers."""
    return isinstance(error, ConnectionAbortedError) or "been disconnected" in str(error)


def _threads(address: str) -> int:
    """Return the number of processors of the cluster. Raises ConnectionError if it is gone."""
    import ray

    if not ray.is_initialized():
        raise ConnectionError("the connection was lost")
    place = address.removeprefix("ray://") or ray.get_runtime_context().gcs_address
    host, _, port = place.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S):
        # Otherwise Ray would wait for a minute, and then end this process.
        return int(ray.cluster_resources().get("CPU", 0))


def _facts() -> list[Facts]:
    """Return the facts of one process of every machine of the cluster that has processors."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
    asked = [
        ray.remote(worker_facts)
        .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
        .remote()
        for node in nodes
    ]
    found: list[Facts] = ray.get(asked, timeout=_JOIN_S)
    return found


def _check_address(address: str, where: str) -> None:
    """Raise InputError for a text that is no address of Ray, or where nothing listens."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 65536:
        raise InputError(
            f"--address {address!r} is not the address of a Ray cluster; expected one such as "
            "ray://10.0.0.5:10001, the machine of `ray start --head` and its port for clients"
        )
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), _ANSWER_S).close()
    except OSError as error:
        raise InputError(
            f"{where} does not answer ({error.strerror or error}); start it with "
            "`ray start --head`, or leave out --address"
        ) from error


def _of_workers() -> dict[str, str]:
    """Return environment variables of workers."""
    from prefect.settings import get_current_settings

    found = {name: os.environ[name] for name in _OF_PREFECT if name in os.environ}
    found["PREFECT_API_URL"] = str(get_current_settings().api.url or "")
    # Ray hides the GPUs from tasks that ask for none; a training looks for them itself.
    return {**found, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@functools.cache
def _token() -> str:
    """Return the token of the clusters of this process, which Ray keeps for as long."""
    return secrets.token_hex(32)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """Make a temporary folder whose name is short enough for sockets."""
    usual = tempfile.gettempdir()
    place = usual if len(usual) < _LONGEST or sys.platform == "win32" else "/tmp"  # noqa: S108
    with tempfile.TemporaryDirectory(
        prefix="hindcast-ray-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield folder


@contextlib.contextmanager
def _environment(values: Mapping[str, str], *, replace: bool) -> Iterator[None]:
    """Set environment variables for as long as the context is open; existing ones if `replace`."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({n: v for n, v in values.items() if replace or before[n] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
