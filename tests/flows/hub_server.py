"""A server on loopback with the interface of the Hugging Face Hub that `hindcast push` uses."""

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_of_the_tests"


@dataclass
class Hub:
    """State of the server.

    Attributes:
        url: Its address.
        commits: Files by path of each commit of each repository, the first to the last.
        objects: Large files by SHA-256.
        uploaded: Digests of the large files that were sent, in order.
        refused: Beginnings of "METHOD PATH" of requests that the server refuses.
        spoils: Whether a commit replaces a file by another one.
        private: Visibility that was asked for, by repository.
    """

    url: str = ""
    commits: dict[str, list[dict[str, bytes]]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    uploaded: list[str] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    spoils: bool = False
    private: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, files: dict[str, bytes]) -> None:
        """Add a commit to a repository, which is made if it does not exist."""
        self.commits.setdefault(name, []).append(files)

    def files(self, name: str) -> dict[str, bytes]:
        """Return the files of a repository's last commit."""
        return self.commits[name][-1]


def oid(number: int) -> str:
    """Return the name of a repository's commit."""
    return f"{number + 1:040x}"


def is_large(path: str) -> bool:
    return path.endswith(".parquet")


@contextmanager
def hub() -> Iterator[Hub]:
    """Yield a server while the context is open."""
    state = Hub()
    handler = type("Bound", (_Handler,), {"state": state})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield state
        finally:
            server.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._answered()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - names of the standard library

    def _answered(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        path = unquote(url.path)
        asked = f"{self.command} {path}"
        if any(asked.startswith(one) for one in self.state.refused):
            self._send(403, {"error": "refused"})
        elif path.startswith("/lfs/"):  # its address is signed, so it has no token
            digest = path.rpartition("/")[2]
            assert hashlib.sha256(body).hexdigest() == digest
            self.state.objects[digest] = body
            self.state.uploaded.append(digest)
            self._send(200, {})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            assert json.loads(body)["content"].startswith("---\n")
            self._send(200, {})
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._send(200, {"objects": [self._upload(one) for one in json.loads(body)["objects"]]})
        elif "/resolve/" in path:
            self._resolve(path)
        else:
            self._of_repository(path, parse_qs(url.query), body)

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        assert asked["type"] == "dataset"
        exists = name in self.state.commits
        if not exists:
            self.state.private[name] = asked.get("visibility")
            self.state.add(name, {".gitattributes": b"*.parquet filter=lfs\n"})
        self._send(409 if exists else 200, {"url": f"{self.state.url}/datasets/{name}"})

    def _upload(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["oid"] in self.state.objects:
            return asked
        return {**asked, "actions": {"upload": {"href": f"{self.state.url}/lfs/{asked['oid']}"}}}

    def _resolve(self, path: str) -> None:
        _, _, owner, name, _, revision, file = path.split("/", 6)
        number = self._number(f"{owner}/{name}", revision)
        content = self.state.commits[f"{owner}/{name}"][number].get(file)
        if content is None:
            self._send(404, {}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha256(content).hexdigest() if is_large(file) else _blob(content)
        self._send(200, content, {"X-Repo-Commit": oid(number), "ETag": f'"{etag}"'})

    def _of_repository(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        _, _, _, owner, name, *more = path.split("/")
        repository = f"{owner}/{name}"
        if repository not in self.state.commits:
            self._send(404, {}, {"X-Error-Code": "RepoNotFound"})
            return
        number = self._number(repository, more[1] if len(more) > 1 else "main")
        files = self.state.commits[repository][number]
        if not more or more[0] == "revision":
            siblings = [{"rfilename": path} for path in files]
            self._send(200, {"id": repository, "sha": oid(number), "siblings": siblings})
        elif more[0] == "tree":
            assert query["recursive"][0].lower() == "true"
            entries = [_entry(path, content) for path, content in files.items()]
            self._send(200, [{"type": "directory", "path": "data", "oid": oid(0)}, *entries])
        elif more[0] == "preupload":
            answers = [
                {"path": one["path"], "uploadMode": "lfs" if is_large(one["path"]) else "regular",
                 "shouldIgnore": False, "oid": None}
                for one in json.loads(body)["files"]
            ]  # fmt: skip
            self._send(200, {"files": answers})
        else:
            self._commit(repository, dict(files), [json.loads(line) for line in body.splitlines()])

    def _commit(self, name: str, files: dict[str, bytes], lines: list[dict[str, Any]]) -> None:
        head = oid(len(self.state.commits[name]) - 1)
        if lines[0]["value"]["parentCommit"] != head:
            self._send(412, {"error": "A commit has happened since."})
            return
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "deletedFile":
                del files[value["path"]]
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.state.objects[value["oid"]]
            else:
                files[value["path"]] = base64.b64decode(value["content"])
        if self.state.spoils:
            files["README.md"] += b"something else"
        self.state.add(name, files)
        made = oid(len(self.state.commits[name]) - 1)
        url = f"{self.state.url}/datasets/{name}/commit/{made}"
        self._send(200, {"commitUrl": url, "commitOid": made})

    def _number(self, name: str, revision: str) -> int:
        return len(self.state.commits[name]) - 1 if revision == "main" else int(revision, 16) - 1

    def _send(self, code: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
    if is_large(path):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
    return entry


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
