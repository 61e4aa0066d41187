"""Addresses of the pages that commands write, and the pages below a folder."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hindcast.pipeline.storage.location import is_remote

# PLACE=URL: where a web server shows the files below a folder or a bucket.
SERVED: Final = "HINDCAST_REPORTS_URL"
_PAGES: Final = ("report.html", "whatif.html", "view.html")  # as commands name them


def link_of(page: Path) -> str:
    """Return the address of a file: that of $HINDCAST_REPORTS_URL if it covers the file.

    Raises nothing: a file that no web server shows has the address of its place.
    """
    place, _, url = os.environ.get(SERVED, "").partition("=")
    text = str(page if is_remote(page) else page.absolute())
    if url and text.startswith(f"{place.rstrip('/')}/"):
        return f"{url.rstrip('/')}/{quote(text[len(place.rstrip('/')) + 1 :])}"
    return text if is_remote(page) else Path(text).as_uri()


def pages_in(folder: Path) -> Iterator[Path]:
    """Yield the pages in a folder and in the folders in it that have one."""
    for pattern in ("", "*/"):
        for name in _PAGES:
            yield from sorted(folder.glob(pattern + name))
