"""Folders in an object store, with the methods of pathlib.Path that Hindcast uses.

An object exists once its upload is complete: there are no temporary names and no renames. A folder
is a prefix of the names of objects; an empty folder does not exist. Listings are not cached. Errors
of a store are raised as StorageError by `refusals`, and only there; a missing file stays a
FileNotFoundError.
"""

import contextlib
import functools
import io
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from upath import UPath
from upath.extensions import ProxyUPath

from hindcast.pipeline.errors import HindcastError, StorageError, StoreUnavailable

# Where each store's client looks for credentials, and for the address of another server.
_ENVIRONMENT: Final[Mapping[str, tuple[str, str]]] = {
    "s3": ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
    ),
}
# Names of exceptions, since the clients that raise them may not be installed.
_DENIED: Final = (
    "PermissionError", "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
    "ProfileNotFound", "TokenRetrievalError", "ClientAuthenticationError",
    "DefaultCredentialsError", "RefreshError",
)  # fmt: skip
_UNREACHABLE: Final = (
    "EndpointConnectionError", "ConnectionClosedError", "ConnectTimeoutError", "ReadTimeoutError",
    "ConnectionError", "ClientConnectionError", "ServiceRequestError", "ServiceResponseError",
    "TimeoutError", "HTTPClientError", "ServerDisconnectedError",
)  # fmt: skip
_NO_BUCKET: Final = (
    "NoSuchBucket", "bucket does not exist", "ContainerNotFound", "container does not exist",
)  # fmt: skip
# Codes of an object that exists, or that is being made by another writer.
_CONFLICTS: Final = ("PreconditionFailed", "ConditionalRequestConflict", "409", "412")
_ANSWERS: Final = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


# If a store does not respond, the error comes after about a minute: three attempts by its client,
# twice, since s3fs restarts a download that breaks off. The environment can change the attempts.
_S3_ATTEMPTS: Final = 3
_S3_WAITS_S: Final = 10
_S3FS_ATTEMPTS: Final = 2
_LOGGERS: Final = ("fsspec", "s3fs", "gcsfs", "adlfs", "azure", "botocore", "aiobotocore")
_READ_AHEAD: Final = 1 << 20  # bytes; larger reads are one request each


class RemotePath(ProxyUPath):
    """URL of a store; made by `hindcast.pipeline.storage.location.location`."""

    @classmethod
    def at(cls, url: str) -> "RemotePath":
        """Return the path of a URL; raise StorageError if its client cannot be set up."""
        for name in _LOGGERS:  # clients also raise what they log, and it is shown in one line
            logging.getLogger(name).addHandler(logging.NullHandler())
        with refusals(url):
            return cls._from_upath(UPath(url.rstrip("/"), **_options(url.partition("://")[0])))

    def store(self) -> Any:
        """Return the fsspec filesystem, with an empty cache."""
        store: Any = self.fs
        store.invalidate_cache()
        if self.protocol == "s3":
            store.retries = _S3FS_ATTEMPTS
        return store

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file or a folder of this name."""
        del follow_symlinks  # stores have no links
        with refusals(self):
            return bool(self.store().exists(self.path)) or self.is_dir()

    def is_file(self) -> bool:
        """Return whether there is an object of this name."""
        with refusals(self):
            return bool(self.store().isfile(self.path))

    def is_dir(self) -> bool:
        """Return whether there is an object below; raise StorageError if the bucket is missing."""
        try:
            entries = self._entries()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return not any(entry["name"].strip("/") == self.path.strip("/") for entry in entries)

    def iterdir(self) -> Iterator["RemotePath"]:
        """Return the paths one level below, in order."""
        own = self.path.strip("/")
        names = {e["name"].rstrip("/").rpartition("/")[2] for e in self._entries()
                 if e["name"].strip("/") != own}  # fmt: skip
        return iter([self / name for name in sorted(names)])

    def _entries(self) -> list[dict[str, Any]]:
        with refusals(self):
            found = self.store().ls(self.path, detail=True)
        return cast("list[dict[str, Any]]", found)

    def glob(self, pattern: str, **_settings: Any) -> Iterator["RemotePath"]:
        """Return the paths below that match, in order."""
        with refusals(self):
            self.store()
            return iter(sorted(super().glob(pattern), key=str))

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Return metadata of an object, such as st_size."""
        del follow_symlinks
        with refusals(self):
            self.store()
            return super().stat()

    def read_bytes(self) -> bytes:
        """Return the content of an object."""
        with refusals(self):
            return bytes(self.store().cat_file(self.path))

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:  # type: ignore[override]
        """Return the content of an object as text."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def open(self, mode: str = "r", **_settings: Any) -> Any:  # type: ignore[override]
        """Open the object for reading in pieces; mode "rb", or "r" for UTF-8."""
        if mode not in {"r", "rb"}:
            raise ValueError(
                f"{self}: mode is {mode!r}, expected 'r' or 'rb'; "
                "write with hindcast.pipeline.storage.files"
            )
        with refusals(self):
            binary = io.BufferedReader(_Object(self), _READ_AHEAD)
        return binary if mode == "rb" else io.TextIOWrapper(binary, encoding="utf-8")

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object."""
        try:
            with refusals(self):
                self.store().rm_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def upload(self, local: Path) -> None:
        """Make the object from a local file, in one step."""
        with refusals(self):
            self.store().put_file(os.fspath(local), self.path)

    def download(self, local: Path) -> None:
        """Copy the object to a local file; raise FileNotFoundError if there is none."""
        try:
            with refusals(self):
                self.store().get_file(self.path, os.fspath(local))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self}: no such file") from error

    def check_writable(self, probe: str) -> None:
        """Write and remove the object `probe`, so that wrong credentials fail before the work."""
        try:
            with refusals(self):
                self.store().pipe_file((self / probe).path, b"")
        except _ANSWERS as error:
            raise _no_bucket(self, error) from error
        (self / probe).remove()

    def remove(self) -> None:
        """Remove the object, or all below the folder; errors are ignored."""
        with contextlib.suppress(StorageError, OSError), refusals(self):
            self.store().rm(self.path, recursive=True)


def _options(scheme: str) -> dict[str, Any]:
    """Return the options of a client that differ from its defaults."""
    if scheme != "s3":
        return {}
    settings: dict[str, Any] = {"read_timeout": _S3_WAITS_S}
    if not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"}.intersection(os.environ):
        settings["retries"] = {"total_max_attempts": _S3_ATTEMPTS, "mode": "standard"}
    settings["http_session_cls"] = _session_class()
    return {"use_listings_cache": False, "config_kwargs": settings}


@functools.cache
def _session_class() -> type:
    """Return the class of S3's HTTP sessions, whose requests leave no exception unretrieved.

    aiohttp writes a request in a task of its own. If the connection was dropped before, that task
    and the response both raise, but only the response is awaited, and then retried. asyncio prints
    the traceback of the other as "Task exception was never retrieved".
    """
    import aiohttp
    from aiobotocore.httpsession import AIOHTTPSession

    class Request(aiohttp.ClientRequest):
        async def write_bytes(self, *arguments: Any) -> None:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # raised by the response
                await super().write_bytes(*arguments)

    class Session(AIOHTTPSession):  # type: ignore[misc]
        async def _get_session(self, proxy_url: Any) -> Any:
            session = await super()._get_session(proxy_url)
            session._request_class = Request  # noqa: SLF001  no setting of aiobotocore's reaches it
            return session

    return Session


class _Object(io.RawIOBase):
    """Raw bytes of an object; every read is one request."""

    def __init__(self, path: RemotePath) -> None:
        super().__init__()
        self._path = path
        self._size = int(path.stat().st_size)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if self._at >= end:
            return 0
        with refusals(self._path):
            found = self._path.fs.cat_file(self._path.path, start=self._at, end=end)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def create(path: Path, content: bytes) -> bool:
    """Make an object unless there is one; return whether it was made. One of two callers succeeds.

    All stores of `pipeline.storage.location` have such writes; Amazon S3 has them since 2024.
    """
    try:
        with refusals(path.parent):
            _remote(path).store().pipe_file(_remote(path).path, content, mode="create")
    except FileExistsError:
        return False
    except FileNotFoundError as error:
        raise _no_bucket(path.parent, error) from error
    except StorageError as error:
        if any(_code(e) in _CONFLICTS for e in _chain(error)):
            return False
        raise
    return True


def arrow_files(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the arguments of pyarrow.dataset.dataset for these objects."""
    import pyarrow.fs as pafs

    found = [_remote(path) for path in paths]
    with refusals(found[0]):
        handler = pafs.FSSpecHandler(found[0].store())
        return {"source": [p.path for p in found], "filesystem": pafs.PyFileSystem(handler)}


def _remote(path: Path) -> RemotePath:
    assert isinstance(path, RemotePath)
    return path


@contextlib.contextmanager
def refusals(path: Any) -> Iterator[None]:
    """Turn any error of a store's client for `path` into one StorageError, with the URL.

    Only calls of a client run in this context, so any exception is the client's. A missing file
    stays a FileNotFoundError, unless its bucket is missing.
    """
    try:
        yield
    except HindcastError:
        raise
    except _ANSWERS as error:
        if any(text in str(e) or text in _code(e) for e in _chain(error) for text in _NO_BUCKET):
            raise _no_bucket(path, error) from error
        raise
    except Exception as error:
        raise _refusal(path, error) from error


def _refusal(path: Any, error: Exception) -> StorageError:
    scheme = str(path).partition("://")[0]
    credentials, endpoint = _ENVIRONMENT.get(scheme, ("the store's credentials", "the address"))
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    kinds = {kind.__name__ for e in _chain(error) for kind in type(e).__mro__}
    if kinds.intersection(_DENIED) or any(_code(e) in {"401", "403"} for e in _chain(error)):
        return StorageError(
            f"{path}: access was refused ({reason}); check {credentials}, and that they allow to "
            "list, read, write and delete there"
        )
    if kinds.intersection(_UNREACHABLE):
        return StoreUnavailable(
            f"{path}: the store cannot be reached ({reason}); check the network and {endpoint}; "
            "the same command continues where it stopped"
        )
    return StoreUnavailable(
        f"{path}: the store refused the request ({reason}); check {credentials} and {endpoint}; "
        "the same command continues where it stopped"
    )


def _no_bucket(path: Any, error: Exception) -> StorageError:
    scheme, _, rest = str(path).partition("://")
    bucket = rest.partition("/")[0]
    _, endpoint = _ENVIRONMENT.get(scheme, ("", "the address"))
    reason = " ".join(str(error).split())[:200]
    return StorageError(
        f"{path}: there is no bucket {bucket!r} ({reason}); create it, or check its name and "
        f"{endpoint}"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _code(error: BaseException) -> str:
    """Return the store's own code of an error, if the client passes it on."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return str(response.get("Error", {}).get("Code", ""))
    return str(getattr(error, "code", None) or getattr(error, "status_code", None) or "")
