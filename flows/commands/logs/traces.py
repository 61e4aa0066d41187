"""`hindcast traces`: list the trace formats that can be ingested."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, refuse_nothing

check: Final = refuse_nothing


@dataclass(frozen=True)
class Request:
    """Options of the list of trace formats; without any, all are listed."""

    clear_cache: bool = p.option(
        "delete the cache of parsed traces instead, see HINDCAST_CACHE above", default=False
    )


def run(request: Request) -> dict[str, Any]:
    """Return the description, source, terms and citation of every format, or clear the cache."""
    if request.clear_cache:
        from hindcast.pipeline.traces.cache import cache_folder, clear

        entries, size = clear()
        return {"cache": str(cache_folder() or ""), "entries": entries, "bytes": size}
    from hindcast.pipeline.traces import FORMATS

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
    """Return one paragraph per format, or the number of deleted entries."""
    import textwrap

    if "cache" in result:
        size = f"{result['bytes'] / 1e6:,.1f} MB"
        return Shown([f"{result['cache']}: deleted {result['entries']} parsed traces, {size}"])

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
    "Commands that read a trace keep what they parsed in HINDCAST_CACHE/traces, by default\n"
    "$XDG_CACHE_HOME/hindcast or ~/.cache/hindcast, at most 2 GiB. An empty HINDCAST_CACHE\n"
    "switches this off.",
)}  # fmt: skip
