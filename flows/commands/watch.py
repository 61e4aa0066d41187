"""`hindcast watch`: show what the commands that write below a folder are doing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location

_SHOWN: Final = 3  # ended steps and notes


@dataclass(frozen=True)
class Request:
    """Folder to watch."""

    folder: p.Folder = p.argument("folder that a command writes, or one around such folders")
    every: p.Count = p.option("seconds between two looks", default=5)
    once: bool = p.option("look once, and end", default=False)


def check(request: Request) -> None:
    """Raise InputError if there is no such folder."""
    if not location(request.folder).is_dir():
        raise InputError(f"{request.folder}: no such folder, expected one that a command writes")


def run(request: Request) -> dict[str, Any]:
    """Show the status of every command until none is at work, or once."""
    import time

    from hindcast.flows.progress import note

    folder = location(request.folder)
    while True:
        at_work = statuses(folder)
        if request.once or not any(status["at_work"] for status in at_work):
            return {"folder": request.folder, "commands": at_work, "pages": _pages(folder)}
        note("\n".join(lines(at_work)))
        time.sleep(request.every)


def statuses(folder: Path) -> list[dict[str, Any]]:
    """Return the status of each command below a folder as JSON, those in outer folders first."""
    import time

    from hindcast.flows.status import read_status
    from hindcast.pipeline.storage.files import STATUS
    from hindcast.pipeline.storage.heartbeat import has_ended

    entries = []
    for path in sorted(folder.rglob(STATUS), key=lambda path: (len(path.parts), str(path))):
        status = read_status(path)
        if status is not None:
            value = asdict(status)
            value |= {"folder": str(path.parent), "at_work": not has_ended(status.holder)}
            value |= {"who": str(status.holder), "ago_s": max(0.0, time.time() - status.updated)}
            value |= {"pages": _pages(path.parent)}
            entries.append(value)
    return entries


def _pages(folder: Path) -> list[str]:
    """Return the addresses of the pages in a folder, which may be of an earlier run."""
    from hindcast.flows.links import link_of, pages_in

    return list(map(link_of, pages_in(folder)))


def lines(entries: list[dict[str, Any]]) -> list[str]:
    """Return the lines of some statuses."""
    from hindcast.flows.progress import duration, estimate, rate

    text_lines = []
    for status in entries:
        state = f"last heard {duration(status['ago_s'])} ago"
        if not status["at_work"]:
            state += "; the process has ended, the same command continues where it stopped"
        text_lines.append(f"{status['folder']}: {status['command']}, {status['who']}, {state}")
        for step in status["ended"][-_SHOWN:]:
            took = f"{step['done']:,} in {duration(step['elapsed_s'])}"
            text_lines.append(f"  ended    {step['title']}: {took}")
        for step in status["steps"]:
            done, total = step["done"] - step["before"], step["total"] - step["before"]
            counts = f"{step['done']:,} of {step['total']:,}" if step["total"] else "started"
            text = ": ".join(filter(None, (step["title"], step["what"], counts)))
            speed = rate(done, step["elapsed_s"])
            text_lines.append(f"  running  {text}{speed}{estimate(done, total, step['elapsed_s'])}")
        text_lines += [f"  note     {note}" for note in status["notes"][-_SHOWN:]]
        text_lines += [f"  page     {page}" for page in status["pages"]]
    return text_lines


def show(result: Mapping[str, Any]) -> Shown:
    """Return the statuses of the last look: commands at work and interrupted ones."""
    commands = result["commands"]
    if not commands:
        pages = [f"  page     {page}" for page in result["pages"]]
        return Shown([f"{result['folder']}: no command is at work here", *pages], [])
    return Shown(lines(commands), commands)


COMMANDS: Final = {"watch": Command(
    "hindcast watch demo",
    Request,
    "Every command with --out keeps its status in that folder while it runs. Folders of object\n"
    "stores are watched too, with a status every 20 seconds.",
)}  # fmt: skip
