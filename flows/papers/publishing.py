"""Pages of a reproduction, and the page of the evidence over all papers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hindcast.flows.papers.evidence import evidence_html
from hindcast.flows.papers.folder import ABOUT, read_results, write_results
from hindcast.flows.papers.page import paper_html, paper_markdown
from hindcast.flows.papers.results import Results
from hindcast.flows.protocols import PROTOCOLS, Protocol, Setting, Stage
from hindcast.pipeline.storage.files import write_text


def protocol_of(
    title: str,
    source: str,
    stages: Callable[[Setting], tuple[Stage, ...]],
    results: Callable[[Path, Setting], Results],
) -> Protocol:
    """Return the protocol of a paper whose page shows tables, figures and claims.

    `results` returns them, from what the stages wrote below a folder.
    """
    return Protocol(title, source, stages, partial(_publish, results))


def _publish(
    results: Callable[[Path, Setting], Results], place: Path, setting: Setting, ran: dict[str, Any]
) -> Path:
    """Write the page of a reproduction and the page of the evidence, and return the first."""
    write_results(place, results(place, setting), ran)
    about, found = read_results(place)
    write_text(place / "page.md", paper_markdown(about, found))
    page = place / "index.html"
    write_text(page, paper_html(about, found))
    folders = [place.parent / name for name in PROTOCOLS]
    papers = [read_results(folder) for folder in folders if (folder / ABOUT).is_file()]
    write_text(place.parent / "index.html", evidence_html(papers))
    return page
