"""`hindcast push`: a verified dataset to an upload folder or a repository of the Hub."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.commands import verify as verification
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import is_remote, location


@dataclass(frozen=True)
class Request:
    """Dataset to publish, and where to."""

    dataset: p.Folder = p.argument("folder of a dataset, on this machine")
    to: p.Name = p.option(
        "new folder for the upload form of an archive, or hf://datasets/OWNER/NAME", metavar="PLACE"
    )
    dry_run: bool = p.option("verify, and print what would go; write and send nothing",
                             default=False, flag="--dry-run")  # fmt: skip
    permission: str = p.option(
        "why you may hand on data whose terms are no open licence; published with them", default="",
        metavar="TEXT",
    )  # fmt: skip
    creators: tuple[str, ...] = p.option(
        "person or group for the metadata of an archive; may be repeated", default=(),
        flag="--creator", action="append", metavar="NAME",
    )  # fmt: skip
    private: bool = p.option("make a repository that only its owner sees, if it is new",
                             default=False)  # fmt: skip
    quick: bool = p.option("verify as `verify --quick` does", default=False)
    workers: p.Workers = p.workers()


def check(request: Request) -> None:
    """Raise InputError if place or dataset cannot be used, or the Hub's token is missing."""
    from hindcast.pipeline.exports.publishing import hub

    if is_remote(location(request.dataset)):
        raise InputError(f"{request.dataset}: copy the dataset to this machine to push it")
    if request.to.startswith(hub.SCHEME):
        hub.repository(request.to)
        if not request.dry_run:
            hub.check_access(request.to)
    elif request.private:
        raise InputError(f"--private is for hf://datasets/OWNER/NAME, not for {request.to}")
    else:
        out = location(request.to)
        if out.exists() and not request.dry_run:
            raise InputError(f"{request.to}: exists already; choose another --to")


def run(request: Request) -> dict[str, Any]:
    """Verify a dataset, and write its upload folder or send it to the Hub."""
    from hindcast.pipeline.dataset import manifest as mf
    from hindcast.pipeline.dataset.documents.publication import creators_of
    from hindcast.pipeline.dataset.documents.terms import licence_of
    from hindcast.pipeline.exports.publishing import folder as publication
    from hindcast.pipeline.exports.publishing import hub
    from hindcast.pipeline.storage.files import scratch

    dataset = location(request.dataset)
    manifest = mf.read_manifest(dataset)
    publication.check_permission(manifest, request.permission)
    verified = verification.run(
        verification.Request(request.dataset, workers=request.workers, quick=request.quick)
    )
    if mf.read_manifest(dataset) != manifest:
        raise InputError(f"{dataset}: this dataset was appended to meanwhile; push again")
    with scratch() as made:
        found = publication.items(dataset, manifest, made, request.creators, request.permission)
        pushed = None
        if not request.dry_run and request.to.startswith(hub.SCHEME):
            pushed = hub.push(found, manifest, request.to, private=request.private)
        elif not request.dry_run:
            publication.write_folder(found, location(request.to))
    files = [{"path": item.path, "bytes": item.bytes, "sha256": item.sha256} for item in found]
    return {
        "dataset": str(dataset), "to": request.to, "name": manifest.name,
        "dry_run": request.dry_run, "licence": licence_of(manifest.provenance)[0],
        "permission": request.permission, "creators": creators_of(request.creators),
        "verified": verified["checks"], "files": files,
        "notes": _notes(manifest),
        **({} if pushed is None else asdict(pushed)),
    }  # fmt: skip


def _notes(manifest: Any) -> list[str]:
    """Return facts about the dataset that a publisher should know before others see it."""
    from hindcast.pipeline.dataset import manifest as mf

    paths = dict.fromkeys(t for t in _texts(mf.to_json(manifest)) if Path(t).is_absolute())
    shown = "manifest.json, and what is made of it, shows a path on this machine"
    return [f"{shown}: {path}" for path in paths]


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts among the values of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple | Mapping):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def show(result: Mapping[str, Any]) -> Shown:
    """Return the files that were sent; those that would be, in a dry run."""
    size = sum(item["bytes"] for item in result["files"])
    count = f"{len(result['files'])} files, {size / 1e6:,.1f} MB"
    unknown = next((c["detail"] for c in result["verified"] if c["check"] == "not compared"), "")
    said = f"; {result['permission']}" if result["permission"] else ""
    lines = [
        f"  verified; not compared: {unknown}", f"  licence: {result['licence']}{said}",
        f"  creators: {'; '.join(result['creators'])}",
    ]  # fmt: skip
    if result["dry_run"]:
        head = f"{result['to']}: nothing was written or sent; {count} would be"
        lines += [f"  {item['path']}: {item['bytes']:,} bytes" for item in result["files"]]
    elif "commit" not in result:
        head = f"{result['to']}: {result['name']}, {count}"
    else:
        what = f"{len(result['sent'])} sent, {len(result['removed'])} removed"
        head = f"{result['to']}: {result['name']}, {count}; {what}"
        lines.append(f"  {result['commit']}")
    return Shown([head, *lines], warnings=list(result["notes"]))


COMMANDS: Final = {"push": Command(
    "hindcast push demo/dataset --to published",
    Request,
    "HF_TOKEN holds the token for hf://, HF_ENDPOINT another server than huggingface.co. All\n"
    "files get there in one commit, and those that are there already are not sent again.",
)}  # fmt: skip
