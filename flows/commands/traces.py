"""`hindcast traces`: list the trace formats that can be ingested."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flows.commands import Command, Shown, refuse_nothing

check: Final = refuse_nothing


@dataclass(frozen=True)
class Request:
    """Request without options: every known trace format is listed."""


def run(_request: Request) -> dict[str, Any]:
    """Return the description, source, terms and citation of every format."""
    from pipeline.traces import FORMATS

    return {
        form.name: {
            "what": form.description,
            "path": form.path,
            "source": form.source,
            "terms": form.terms,
            "citation": form.citation,
        }
        for form in FORMATS.values()
    }


def show(result: Mapping[str, Any]) -> Shown:
    """Return one paragraph per format."""
    import textwrap

    lines: list[str] = []
    for name, facts in result.items():
        lines.append(name)
        for title, text in facts.items():
            lines += textwrap.wrap(
                text, 96, initial_indent=f"  {title:<10}", subsequent_indent=" " * 12
            )
    return Shown(lines, [{"format": name, **facts} for name, facts in result.items()])


COMMANDS: Final = {"traces": Command(
    "hindcast traces",
    Request,
)}  # fmt: skip
