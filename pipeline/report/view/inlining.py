"""Scripts and styles that stand in a page, each with the hash that the page's policy allows."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hindcast.pipeline.pages.templates import STYLE

_HERE: Final = Path(__file__).parent
_SCRIPTS: Final = ((STYLE.with_name("page.js"),), (_HERE / "uplot" / "uPlot.iife.min.js",))
_STYLES: Final = ((STYLE,), (_HERE / "uplot" / "uPlot.min.css",), (_HERE / "view.css",))


class _Inline(NamedTuple):
    """Text of a script or style, and the hash that the page's policy allows it by."""

    text: str
    hash: str


def inlined(module: Sequence[str]) -> dict[str, list[_Inline]]:
    """Return the scripts and styles of a page; files of `module` are one script, in order."""
    scripts = (*_SCRIPTS, tuple(_HERE / name for name in module))
    return {
        "scripts": [_inline(paths) for paths in scripts],
        "styles": [_inline(paths) for paths in _STYLES],
    }


def _inline(paths: Sequence[Path]) -> _Inline:
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return _Inline(text, f"'sha256-{digest}'")
