"""Pages of committed reproductions: one per paper below docs/results, and the evidence."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docs.generate.results import FOLDER
from docs.generate.text import contents
from hindcast.flows.papers.evidence import evidence_markdown
from hindcast.flows.papers.folder import ABOUT, read_results
from hindcast.flows.papers.page import paper_markdown
from hindcast.flows.protocols import PROTOCOLS

_PAGES: Final = Path("generated") / "papers"  # below docs


def committed() -> dict[str, Path]:
    """Return the folders of committed reproductions, by paper."""
    found = {name: FOLDER / name for name in PROTOCOLS}
    return {name: folder for name, folder in found.items() if (folder / ABOUT).is_file()}


def paper_pages() -> Mapping[str, str]:
    """Return the page of each committed reproduction, and the page of the evidence."""
    results = {name: read_results(folder) for name, folder in committed().items()}
    pages = {
        f"papers/{name}.md": paper_markdown(
            about, found, f"{Path(os.path.relpath(Path('results') / name, _PAGES)).as_posix()}/"
        )
        for name, (about, found) in results.items()
    }
    evidence = evidence_markdown(list(results.values()))
    listed = contents(list(results)) if results else ""
    return {"papers/evidence.md": f"{evidence}\n{listed}", **pages}
