"""Matplotlib figures as inline SVG, themed by CSS variables of the page.

The same figure gives the same bytes.
"""

import hashlib
import html
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from typing import Any, Final

# Placeholders for matplotlib, replaced by CSS variables of the page in the SVG, so that a plot
# follows the light and the dark scheme. Every colour must differ from all others.
INK: Final = "#0a0b0c"
MUTED: Final = "#0a0b1c"
GRID: Final = "#0a0b2c"
LEARNED: Final = "#0a0b3c"
SIMPLE: Final = "#0a0b4c"
STRONGEST: Final = "#0a0b5c"
RANDOM: Final = "#0a0b6c"
BOUND: Final = "#0a0b7c"
GOOD: Final = "#0a0b8c"
BAD: Final = "#0a0b9c"
PAPER: Final = "#0a0bac"
LINES: Final = tuple(f"#0a1b{i}c" for i in range(8))

_VARIABLES: Final = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    LEARNED: "--learned",
    SIMPLE: "--simple",
    STRONGEST: "--strongest",
    RANDOM: "--random",
    BOUND: "--bound",
    GOOD: "--good",
    BAD: "--bad",
    PAPER: "--card",
    **{color: f"--line-{i}" for i, color in enumerate(LINES, start=1)},
}
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text, for screen readers, selection and themes
    "svg.image_inline": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so widths are the same everywhere
    "font.size": 8.5,
    "text.usetex": False,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.unicode_minus": True,
    "path.simplify": True,
    "path.sketch": None,
}


def new_figure(width: float, height: float) -> Any:
    """Return a figure of that size in inches, outside of pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    return figure


def style_axes(axes: Any, *, grid: str = "x") -> None:
    """Give axes a quiet frame: one spine, a light grid in one direction, muted ticks."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.patch.set_alpha(0.0)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=grid, color=GRID, linewidth=0.6)
    axes.tick_params(colors=MUTED, labelcolor=MUTED, length=0, labelsize=8, pad=5)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)


@contextmanager
def settings() -> Iterator[None]:
    """Set the style of figures, without reading or changing the user's matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def to_svg(figure: Any, name: str, description: str) -> str:
    """Return the figure as an <svg> element; `description` is its text alternative.

    The markup has no address, no date and no unused id. Ids start with a digest of `name`, so that
    several plots can be on one page.
    """
    import matplotlib as mpl

    salt = hashlib.sha256(name.encode()).hexdigest()[:8]
    buffer = StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}), warnings.catch_warnings():
        # Names stay text: the reader's fonts have letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = _own_ids(text, f"p{salt}-")
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    text = re.sub(r"font: ([^;\"]*?)(\d[\d.]*px)[^;\"]*", r"font: \1\2 var(--font)", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", text)
    box = re.search(r'viewBox="[^"]*"', text)
    label = html.escape(description)
    opening = f'<svg {box.group(0) if box else ""} role="img" aria-label="{label}">'
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1).strip()


def standalone(markup: str, variables: Mapping[str, str]) -> str:
    """Return an <svg> element of `to_svg` as a file that any viewer shows, on white.

    `variables` are the values of the CSS variables, such as `--ink`.
    """
    for name, value in variables.items():
        markup = markup.replace(f"var({name})", value)
    markup = markup.replace("var(--font)", "sans-serif")
    opening, _, rest = markup.partition(">")
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f'{opening}><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n'


def _own_ids(text: str, prefix: str) -> str:
    """Prefix the ids that something refers to, and drop the others."""
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))

    def rename(match: re.Match[str]) -> str:
        return f' id="{prefix}{match.group(1)}"' if match.group(1) in used else ""

    text = re.sub(r'\sid="([^"]*)"', rename, text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
