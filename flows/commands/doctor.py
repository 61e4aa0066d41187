"""`hindcast doctor`: check the installation and the machine, and say how to mend what is wrong."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, refuse_nothing

check: Final = refuse_nothing


@dataclass(frozen=True)
class Request:
    """Folders to check."""

    folders: tuple[p.Folder, ...] = p.argument(
        "folders or URLs where outputs will be written (default: this one)", default=(".",)
    )


def run(request: Request) -> dict[str, Any]:
    """Return the findings of all checks."""
    from hindcast.flows.diagnosis import diagnose

    return {"findings": [asdict(finding) for finding in diagnose(request.folders)]}


def show(result: Mapping[str, Any]) -> Shown:
    """Return one line per finding, and one with the remedy where something is wrong."""
    findings = result["findings"]
    width = max(len(finding["check"]) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding['judgement']:<9}{finding['check']:<{width + 2}}{finding['fact']}")
        if finding["remedy"]:
            lines.append(f"{'':<9}{'':<{width + 2}}remedy: {finding['remedy']}")
    judgements = [finding["judgement"] for finding in findings]
    failures, warnings = judgements.count("failure"), judgements.count("warning")
    lines.append(f"{len(findings)} checks, {failures} failed, {warnings} with a warning")
    return Shown(lines, findings, code=int(failures > 0))


COMMANDS: Final = {"doctor": Command(
    "hindcast doctor demo s3://bucket/runs",
    Request,
    "Checks versions, cores, memory, GPU, the cache of compiled simulators, Prefect's server and\n"
    "folder, extras, traces, and whether the folders can be written. The exit\n"
    "code is 1 if a check fails.",
)}  # fmt: skip
