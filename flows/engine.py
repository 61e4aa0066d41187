"""Environment of Prefect for one command, and a Prefect server inside the process.

Prefect needs a server. If PREFECT_API_URL names one, it is used. Otherwise the command runs a
server in a thread, on a free port of the loopback interface: nothing has to be started beforehand,
and nothing is left running, however the command ends. Processes that the command starts find the
server under PREFECT_API_URL.

    PREFECT_HOME, by default <cache>/hindcast/prefect, <cache> being $XDG_CACHE_HOME or ~/.cache
      prefect.db        run history; kept, since creating it takes seconds
      prefect-1.db ...  for commands that run at the same time: an SQLite file serves one server
      hindcast.log      Prefect's warnings, with tracebacks
      storage/          results of flows and tasks, JSON

PREFECT_HOME is outside the folders that commands write, since those are digested and passed on.
"""

import contextlib
import contextvars
import gc
import importlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hindcast.flows.commands import name_of
from hindcast.flows.progress import note
from hindcast.pipeline.errors import HindcastError, InputError

_STARTUP_S: Final = 90
_DATABASE: Final = 16 << 20  # bytes that an empty database and its journal may take
_ANSWER_S: Final = 10.0  # time that the server of PREFECT_API_URL has to answer

# Set before Prefect is imported, unless the user has set them.
_SETTINGS: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(_STARTUP_S),
    "PREFECT_LOGGING_SETTINGS_PATH": str(Path(__file__).with_name("prefect_logging.yml")),
}

# Set in addition for the server of this process. It lives as long as one command and only records
# runs, so services for events, triggers, schedules and the user interface are off.
_EMBEDDED: Final[Mapping[str, str]] = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}


def run_flow(request: Any) -> dict[str, Any]:
    """Run the flow of a request to its end, and raise the errors of its steps unchanged."""
    server = os.environ.get("PREFECT_API_URL")
    with prefect_engine():
        if server:
            check_server(server)
        flow = getattr(importlib.import_module("hindcast.flows.deployments"), name_of(request))
        with _loss_of(server):
            result: dict[str, Any] = flow(**vars(request))
        return result


@contextlib.contextmanager
def prefect_engine() -> Iterator[None]:
    """Prepare Prefect to run flows, with the server of PREFECT_API_URL or one in this process."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_silent_logging())
        stack.enter_context(_environment(_SETTINGS))
        stack.enter_context(prefect_home())
        if not os.environ.get("PREFECT_API_URL"):
            note("starting Prefect")
            stack.enter_context(_embedded_server())
        yield


@contextlib.contextmanager
def _silent_logging() -> Iterator[None]:
    """Let log records that cannot be written be lost; logging would print tracebacks of them.

    The disk of PREFECT_HOME may be full, or the server that keeps the log of a run be lost. In that
    case Prefect still tries to send its log when the process ends, so the setting stays.
    """
    before = logging.raiseExceptions
    logging.raiseExceptions = False
    yield
    logging.raiseExceptions = before


def _log() -> Path:
    return Path(os.environ["PREFECT_HOME"]) / "hindcast.log"


def check_server(url: str) -> None:
    """Raise InputError unless the server of PREFECT_API_URL answers as one of Prefect 3."""
    if reason := _refusal(url):
        raise InputError(
            f"PREFECT_API_URL is {_without_user(url)}, where no Prefect server can be used "
            f"({reason}); start one with `prefect server start`, unset the variable, or give "
            "--direct"
        )


def server_settings(url: str) -> dict[str, Any]:
    """Return the settings of a Prefect server; an empty object if it does not tell them."""
    with _no_collection():
        from prefect.client.orchestration import get_client
        from prefect.settings import temporary_settings
    settings = {"api.url": url, "client.max_retries": 0, "api.request_timeout": _ANSWER_S}
    with temporary_settings(settings), get_client(sync_client=True) as client:
        try:
            found: dict[str, Any] = client.request("GET", "/admin/settings").json()
        except Exception:  # noqa: BLE001  of httpx or Prefect; a hosted server has no such page
            return {}
    return found


@contextlib.contextmanager
def _loss_of(url: str | None) -> Iterator[None]:
    """Raise HindcastError in place of what a flow raises if its server no longer answers.

    An error of the command itself is raised unchanged.
    """
    try:
        yield
    except HindcastError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:  # Prefect could not record the error of the command
            if isinstance(cause, HindcastError):
                raise cause from None
            cause = cause.__context__
        reason = None if url is None else _refusal(url)
        if url is None or reason is None:
            if type(error).__module__.partition(".")[0] not in {"httpx", "prefect"}:
                raise
            said = str(error).partition("\n")[0]
            raise HindcastError(
                f"Prefect could not record the run ({said or type(error).__name__}), see {_log()}; "
                "--direct runs without it; the same command continues where it stopped"
            ) from error
        raise HindcastError(
            f"PREFECT_API_URL is {_without_user(url)}, where the Prefect server no longer answers "
            f"({reason}); start it again, unset the variable, or give --direct; the same command "
            "continues where it stopped"
        ) from error


def _without_user(url: str) -> str:
    """Return a URL with "..." in place of a user and password."""
    address, path = url.rpartition("@")[::2] if "@" in url else ("", url)
    return f"{address.partition('://')[0]}://...@{path}" if address else url


def _refusal(url: str) -> str | None:
    """Return why a server cannot be used, or None if it answers as one of Prefect 3."""
    with _no_collection():
        from prefect.client.orchestration import get_client
        from prefect.settings import temporary_settings
    settings = {"api.url": url, "client.max_retries": 0, "api.request_timeout": _ANSWER_S}
    try:
        with temporary_settings(settings), get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
    except Exception as error:  # noqa: BLE001  of httpx, Prefect, or what parses the URL
        reason = str(error.__cause__ or error).partition("\n")[0]
        return reason.replace(url, _without_user(url)) or type(error).__name__
    return None


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set those environment variables that are not set, for as long as the context is open."""
    added = {name: value for name, value in values.items() if not os.environ.get(name)}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def prefect_home() -> Iterator[Path]:
    """Set PREFECT_HOME, unless the user has, to a folder in the cache or a temporary one."""
    if given := os.environ.get("PREFECT_HOME"):
        yield Path(given).expanduser()
        return
    with contextlib.ExitStack() as stack:
        try:
            cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
            home = cache / "hindcast" / "prefect"
            home.mkdir(parents=True, exist_ok=True)
            (home / ".writable").touch()
        except (OSError, RuntimeError):  # for example a container without a home
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hindcast-")))
        with _environment({"PREFECT_HOME": str(home)}):
            yield home


@contextlib.contextmanager
def _embedded_server() -> Iterator[None]:
    import socket

    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(_EMBEDDED))
        database = stack.enter_context(_own_database(Path(os.environ["PREFECT_HOME"]).expanduser()))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        stack.enter_context(_environment({"PREFECT_API_URL": url}))

        with _no_collection():
            from prefect.settings import temporary_settings

        # Prefect reads the environment at its import, which may have happened before. Heartbeats
        # show other processes that this one is alive; here they would only delay the end of a flow.
        settings = {
            "api.url": url,
            "server.database.connection_url": f"sqlite+aiosqlite:///{database}",
            "flows.heartbeat_frequency": None,
        }
        stack.enter_context(temporary_settings(settings))
        stack.enter_context(_serving(listening))
        yield


@contextlib.contextmanager
def _own_database(home: Path) -> Iterator[Path]:
    """Lock a database file that no other process serves, for as long as the context is open."""
    import fcntl

    home.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        name = f"prefect-{number}" if number else "prefect"
        with (home / f".{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
                continue
            yield home / f"{name}.db"
            return


@contextlib.contextmanager
def _serving(listening: Any) -> Iterator[None]:
    """Serve Prefect's API on the socket, from a thread of this process."""
    with _no_collection():
        import uvicorn
        from prefect.events.worker import EventsWorker
        from prefect.server.api.server import create_app

        app = create_app(ephemeral=True, final=True, ignore_cache=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    context = contextvars.copy_context()  # with the settings of this command
    thread = threading.Thread(
        target=context.run, args=(server.run, [listening]), name="prefect-server", daemon=True
    )
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield
        # Events are recorded while the server still runs.
        EventsWorker.drain_all(timeout=5, at_exit=False)
    finally:
        server.should_exit = True
        thread.join(timeout=5)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection during imports, which saves 12 % of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _wait_until_started(server: Any, thread: threading.Thread) -> None:
    waited = 0.0
    while not server.started:
        thread.join(0.02)
        waited += 0.02
        if waited > _STARTUP_S or not (thread.is_alive() or server.started):
            log = _log()
            free = shutil.disk_usage(log.parent).free
            why = f" (its disk has {free:,} bytes free)" if free < _DATABASE else ""
            raise HindcastError(
                f"Prefect's server did not start, see {log}{why}; --direct runs without it"
            )
