"""Workers on other machines: whether they can do the work, with the same bytes as here."""

import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from hindcast.pipeline.errors import InputError

Facts = tuple[str, dict[str, str]]


def worker_facts() -> Facts:
    """Return the name of this machine, and the versions of packages here."""
    from hindcast.pipeline.dataset.manifest import versions

    return socket.gethostname(), versions()


def check_workers(ask: Callable[[], Iterable[Facts]], where: str) -> None:
    """Raise InputError if the workers cannot run units, or cannot reach Prefect's server.

    `ask` returns the `worker_facts` of all workers.
    """
    from prefect.settings import get_current_settings

    from hindcast.pipeline.dataset.manifest import versions

    try:
        found = list(ask())
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(
            f"{where}: its workers cannot run Hindcast ({said}); install the same version there"
        ) from error
    own = versions()
    for host, theirs in found:
        differ = [f"{n} {theirs.get(n)}, here {v}" for n, v in own.items() if theirs.get(n) != v]
        if differ:
            raise InputError(
                f"{where}: a worker on {host} has other versions ({'; '.join(differ)}); install "
                "the same versions on all machines"
            )
    server = urlsplit(get_current_settings().api.url or "")
    others = sorted({host for host, _ in found} - {socket.gethostname()})
    if others and server.hostname in {"localhost", "127.0.0.1", "::1"}:
        raise InputError(
            f"{where} has workers on {others[0]}, which cannot reach Prefect's server on this "
            "machine; start one that they can reach, and name it in PREFECT_API_URL"
        )
