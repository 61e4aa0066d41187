"""A headless Chromium, driven by its debugging protocol, that says what a page does in it."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 60.0
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
}


def program() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def find_chromium() -> str:
    """Return the path of a Chromium; skip the test where there is none, and fail in CI."""
    found = program()
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("CI has no Chromium")
    if found is None:
        pytest.skip("no Chromium")
    return found


class Page:
    """A page in the browser.

    Attributes:
        events: What the browser has told so far: [(method, parameters), ...].
        process: Number of the browser's process.
    """

    def __init__(self, socket: Any, process: int) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.process = process
        self.events: list[tuple[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _receive(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=timeout))
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def call(self, method: str, **parameters: Any) -> Any:
        """Return what a method of the protocol answers."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := self._receive()).get("id") != number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def wait_for(self, method: str) -> Any:
        """Return the parameters of the next event of that name."""
        while (message := self._receive()).get("method") != method:
            pass
        return message["params"]

    def run(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> Any:
        """Return the first true value of an expression."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if value := self.run(script):
                return value
            time.sleep(0.02)
        raise TimeoutError(script)

    def show(self, path: Path, hash_: str = "", width: int = 1200, height: int = 900) -> None:
        """Load a file, and wait until the schedules are drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=False)  # fmt: skip
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}{hash_}")
        self.until("performance.getEntriesByName('drawn').length")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": KEYS[key]}
            if key == "Enter":
                text["text"] = "\r"
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move or press the mouse: `mouseMoved`, `mousePressed`, `mouseReleased`."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def faults(self) -> list[str]:
        """Return errors and warnings of the console since `show`, and addresses asked for."""
        found = []
        for method, told in self.events:
            if method == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and told["type"] in {"error", "warning"}:
                found.append(str(told["args"]))
            elif method == "Log.entryAdded":
                found.append(str(told["entry"]))
            elif method == "Network.requestWillBeSent":
                url = told["request"]["url"]
                if not url.startswith(("file://", "data:", "blob:", "about:")):
                    found.append(url)
        return found


@contextmanager
def chromium(*options: str) -> Iterator[Page]:
    """Run a browser, and stop it afterwards."""
    path = find_chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        call = [
            path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
            "--no-first-run", f"--user-data-dir={folder}", *options, "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = _poll(lambda: (Path(folder) / "DevToolsActivePort").read_text().split()[0])
            import urllib.request

            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = json.load(answer)
            address = next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page")
            with connect(address, max_size=None, proxy=None) as socket:
                yield Page(socket, process.pid)
        finally:
            process.terminate()
            process.wait()


def _poll(read: Callable[[], str]) -> str:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return read()
        except (OSError, IndexError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
