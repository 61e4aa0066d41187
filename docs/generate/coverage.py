"""Coverage of intervals: tables from docs/results/intervals.csv.

python -m tests.benchmarks.intervals > docs/results/intervals.csv
"""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

from docs.generate.results import FOLDER, INTERVALS
from docs.generate.text import table

BEFORE: Final = "percentile"
NOW: Final = "student"
EARLIER: Final = "widened"
_METHODS: Final = {
    BEFORE: "percentile bootstrap, crossed with seeds (before)",
    "bca": "bias-corrected and accelerated bootstrap of the windows",
    "bootstrap-t": "bootstrap-t of the windows",
    "plain t": "Student's t of the windows",
    NOW: "**what evaluations have**",
}
_OF: Final = {"mean", "difference"}
_GROWING: Final = {"proportional": "nearly constant", "scattered": "scatters as the score"}
_WINDOWS: Final = ("10", "30", "200")
_SINGLE: Final = {  # what a page calls it -> beginning of the interval, and method
    "agents on grids, 95 %, 20 zones, one seed and five": (
        "difference over 20 zones", "bootstrap of zones",
    ),
    "rank correlation of an estimator, 95 %, 17 policies": (
        "rank correlation", "bootstrap of policies",
    ),
    "difference of two estimators in the mean of six scenarios, 95 %": (
        "difference of two", "bootstrap of policies",
    ),
    "difference of two policies over 10 and 30 weeks, 95 %": ("difference over weeks", "student"),
    "coefficients of a behaviour model, 95 %, 10 to 200 days": (
        "coefficient", "sandwich over days",
    ),
    "orders of queue, 99 %, not shown, 10 and 30 weeks": (
        "logarithm of a ratio", "percentile, level .99",
    ),
}  # fmt: skip
Rows = Sequence[Mapping[str, str]]


def coverage_pages() -> Mapping[str, str]:
    """Return the parts of docs/protocol.md about intervals and the sequential test."""
    with (FOLDER / INTERVALS).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        "parts/coverage.md": _coverage(rows),
        "parts/coverage-methods.md": _methods(rows),
        "parts/coverage-growing.md": _growing(rows),
        "parts/coverage-widened.md": _earlier(rows),
        "parts/coverage-tables.md": _tables(rows),
        "parts/power.md": _powers(rows),
        "parts/sequential.md": _sequential(rows),
    }


def _coverage(rows: Rows) -> str:
    """Return the coverage before and now; a row has all numbers of windows."""
    found = {
        (r["scores"], r["shared"], r["seeds"], r["interval"], r["windows"], r["method"]):
        r["coverage"] for r in rows
    }  # fmt: skip
    lines = []
    of_both = [k[:4] for k in found if k[5] == NOW and k[3] in _OF and k[0] not in _GROWING]
    for scores, shared, seeds, interval in dict.fromkeys(of_both):
        cells = [
            " -> ".join(
                _percent(found[scores, shared, seeds, interval, windows, method])
                for method in (BEFORE, NOW)
            )
            for windows in _WINDOWS
        ]
        of = "independent" if shared == "1" else "share 4/5 of their jobs"
        lines.append([scores, of, seeds, interval, *cells])
    head = ["scores", "windows", "seeds", "interval of the", *(f"{w} windows, %" for w in _WINDOWS)]
    return table(head, lines)


def _methods(rows: Rows) -> str:
    lines = []
    for method, name in _METHODS.items():
        own = [r for r in rows if r["method"] == method and r["scores"] not in _GROWING]
        own = [r for r in own if r["interval"] in _OF]
        alone = [r for r in own if (r["shared"], r["seeds"]) == ("1", "1")]
        lines.append([name, *(_range(some) for some in (alone, own))])
    return table(["method", "one seed, independent windows, %", "all cases, %"], lines)


def _growing(rows: Rows) -> str:
    """Return the coverage where the difference grows with the score of a window."""
    lines = []
    for scores, ratio in _GROWING.items():
        for interval in ("difference", "relative difference"):
            own = [r for r in rows if (r["scores"], r["interval"]) == (scores, interval)]
            for method in dict.fromkeys(r["method"] for r in own):
                by = {r["windows"]: r["coverage"] for r in own if r["method"] == method}
                name = _METHODS.get(method, "Fieller's")
                lines.append([ratio, interval, name, *(_percent(by[n]) for n in _WINDOWS)])
    head = ["ratio of the policies", "interval of the", "method"]
    return table([*head, *(f"{n} windows, %" for n in _WINDOWS)], lines)


def _earlier(rows: Rows) -> str:
    """Return the coverage of intervals of earlier evaluations, and when they are widened."""
    found = {
        (r["scores"], r["seeds"], r["windows"], r["method"]): r["coverage"] for r in rows
        if (r["shared"], r["interval"]) == ("1", "difference")
    }  # fmt: skip
    lines = [
        [scores, seeds, *(
            " -> ".join(_percent(found[scores, seeds, n, method]) for method in (BEFORE, EARLIER))
            for n in _WINDOWS
        )]
        for scores, seeds, n, method in found
        if (n, method) == (_WINDOWS[0], EARLIER)
    ]  # fmt: skip
    return table(["scores", "seeds", *(f"{n} windows, %" for n in _WINDOWS)], lines)


def _tables(rows: Rows) -> str:
    """Return the coverage of intervals that single tables have, least and most over the cases."""
    lines = []
    for what, (interval, method) in _SINGLE.items():
        of = [r for r in rows if r["method"] == method and r["interval"].startswith(interval)]
        for dependent in ("", ", dependent"):
            own = [r for r in of if r["interval"].endswith("dependent") == bool(dependent)]
            if own:
                lines.append([f"{what}{dependent}", _range(own)])
    return table(["interval", "holds the truth, %"], lines)


def _powers(rows: Rows) -> str:
    """Return how often effects of the minimum detectable size are shown."""
    own = {
        (r["scores"], r["shared"], r["seeds"], r["windows"]): r["coverage"]
        for r in rows if r["interval"] == "power at the MDE"
    }  # fmt: skip
    lines = []
    for scores, shared, seeds in dict.fromkeys(key[:3] for key in own):
        of = "independent" if shared == "1" else "share 4/5 of their jobs"
        cells = [_percent(own[scores, shared, seeds, n]) for n in _WINDOWS]
        lines.append([scores, of, seeds, *cells])
    return table(["scores", "windows", "seeds", *(f"{n} windows, %" for n in _WINDOWS)], lines)


def _sequential(rows: Rows) -> str:
    """Return the error of the sequential test, its power, and the windows that it plays."""
    own = {
        (r["windows"], r["seeds"], r["interval"]): r for r in rows if r["method"] == "sequential"
    }
    lines = []
    for windows, seeds in dict.fromkeys(key[:2] for key in own):
        error, power = (own[windows, seeds, f"{of} until decided"] for of in ("error", "power"))
        numbers = [error["coverage"], power["coverage"], power["width"]]
        lines.append([windows, seeds, *map(_percent, numbers)])
    head = ["windows at most", "seeds", "error, %", "effects of 0.3 shown, %",
            "windows played for these, %"]  # fmt: skip
    return table(head, lines)


def _range(rows: Rows) -> str:
    shares = [float(row["coverage"]) for row in rows]
    ends = dict.fromkeys(_percent(share) for share in (min(shares), max(shares)))
    return " to ".join(ends)


def _percent(share: str | float) -> str:
    return f"{100 * float(share):.1f}"
