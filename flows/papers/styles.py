"""Colour, dash and marker of every series: a policy looks the same in all figures.

The colours are those of reports, which differ for colour-blind readers too. Dashes, markers and
hatches differ where colours repeat. Numbers that a paper prints are hollow and have the colour of
their policy.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.report import svg

PAPER: Final = " (paper)"  # ends the name of a series that a paper prints
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_HATCHES: Final = ("", "///", "---", "xxx")  # lines; those of dots take 30 kB in an SVG
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_AGENT, _STRONGEST, _FIRST, _SECOND, _THIRD = 0, 2, 1, 3, 4
# Policies of the papers' own figures; the agent of each paper is blue.
_KNOWN: Final[Mapping[str, int]] = {
    "reinforce": _AGENT, "monte_carlo_value": _AGENT, "report_dqn": _AGENT, "score_ppo": _AGENT,
    "ppo": _AGENT, "agent": _AGENT,
    "OSDEC": _AGENT, "REINFORCE": 6, "PPO": 4, "PointerNet": 5, "PPO+Att": 7,
    "PPO+Att+AuxH": 3, "PPO+Att+AuxL": 1,
    "first_fit": _FIRST, "tetris_reference": _SECOND, "longest_first": 5, "tetris": 4,
    "longest_spread": _STRONGEST, "knapsack": _STRONGEST, "most_free_now": _STRONGEST,
    "hold_8": _STRONGEST, "window_short": _STRONGEST, "urgent_first": 5, "hold_5": 5,
    "urgent_shortest": 4,
    "fifo": _FIRST, "sjf": _SECOND, "sf_e": _FIRST, "lf_e": _SECOND, "lf_p": 6,
    "sjf_now": _FIRST,
    "packer_now": _SECOND, "no_short_visible": 4, "natural_gradient": 6,
    "fcfs": _FIRST, "f1": _STRONGEST, "wfp": 5, "uni": 6,
    "max_usage": _FIRST, "max_distance": _SECOND,
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Look of a series.

    Attributes:
        color: Placeholder of hindcast.pipeline.report.svg.
        dash: Line style of matplotlib.
        hatch: Hatch of matplotlib.
        marker: Marker of matplotlib.
        hollow: Whether the series is a paper's, drawn as hollow markers.
    """

    color: str
    dash: Any
    hatch: str
    marker: str
    hollow: bool


def styles(series: Sequence[str]) -> dict[str, Style]:
    """Return the style of every series of a figure.

    A name that is not known gets a style by its digest, or the next one that is free in this
    figure.
    """
    found: dict[str, tuple[str, int]] = {}
    for name in dict.fromkeys(each.removesuffix(PAPER) for each in series):
        if name == "random":
            found[name] = (svg.RANDOM, 1)
        elif name == "bound":
            found[name] = (svg.BOUND, 2)
        else:
            first = _KNOWN.get(name)
            if first is None:
                first = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
            places = ((first + step) % (len(svg.LINES) * len(_DASHES)) for step in range(32))
            keys = ((svg.LINES[at % 8], at // 8) for at in places)
            found[name] = next(key for key in keys if key not in found.values())
    looks = {}
    for name in series:
        color, dash = found[name.removesuffix(PAPER)]
        marker = _MARKERS[svg.LINES.index(color) if color in svg.LINES else dash]
        looks[name] = Style(color, _DASHES[dash], _HATCHES[dash], marker, name.endswith(PAPER))
    return looks
