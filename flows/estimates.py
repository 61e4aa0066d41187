"""How `hindcast ope` prints estimates: a block per policy, then how well each estimator ranks."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any


def text_of(result: Mapping[str, Any]) -> list[str]:
    """The lines for a person: estimates beside the truth, warnings, rank correlations."""
    about, rows = result["about"], result["rows"]
    read = f"{about['episodes']:,} episodes of {about['windows']:,} {about['split']} windows"
    lines = [
        f"{about['dataset']}: {read}, mean logged return {_number(about['logged_return'])}",
        f"policies explore with epsilon {about['epsilon']:g}, temperature {about['temperature']:g}",
    ]
    for policy, own in groupby(rows, key=lambda row: row["policy"]):
        lines += _policy(policy, list(own))
    lines += _selection(about)
    lines += [f"note: {note}" for note in about["notes"]]
    if about["out"]:
        lines.append(str(about["out"]))
    return lines


def _policy(policy: str, rows: list[Mapping[str, Any]]) -> Iterator[str]:
    first = rows[0]
    own = ", a behaviour of the log" if first["logged"] else ""
    truth = "not known"
    if first["truth"] is not None:
        truth = _interval(first, "truth", "truth_low", "truth_high")
    covered = "" if first["coverage"] is None else f", coverage {first['coverage']:.1%}"
    yield f"{policy}: true return {truth}{covered}{own}"
    warnings: dict[str, list[str]] = {}
    for row in rows:
        mark = "!" if row["warnings"] else " "
        size = "" if row["ess"] is None else f"  ess {row['ess']:,.1f} of {row['episodes']:,}"
        shown = f"{_interval(row, 'value', 'low', 'high'):<32}"
        paired = _interval(row, "difference", "difference_low", "difference_high")
        yield f"  {row['estimator']:<12}{mark} {shown} to the log {paired:<28}{size}".rstrip()
        for warning in row["warnings"]:
            warnings.setdefault(warning, []).append(row["estimator"])
    for warning, names in warnings.items():
        yield f"  ! {', '.join(names)}: {warning}"


def _selection(about: Mapping[str, Any]) -> Iterator[str]:
    consensus = about.get("consensus")
    if consensus is not None:
        yield f"consensus, {consensus['description']}, best first: {', '.join(consensus['order'])}"
    found = [*about["estimators"], *([] if consensus is None else [consensus])]
    known = [e for e in found if "rank_correlation" in e]
    if not known:
        return
    yield (
        "estimator    rank correlation   of new policies   regret@1   SharpeRatio@3   error I"
        "   error II   "
        f"(against {about['reference'] or 'no heuristic'})"
    )
    unknown = -2.0
    for e in sorted(known, key=lambda e: -(e["rank_correlation"] or unknown)):
        numbers = [
            (e["rank_correlation"], 16), (e["rank_correlation_new"], 17),
            (e["regret"].get("1"), 10), (e["sharpe"].get("3"), 15),
            (e["type_1"], 9), (e["type_2"], 10),
        ]  # fmt: skip
        cells = " ".join(f"{_number(value):>{width}}" for value, width in numbers)
        yield f"{e['name']:<12} {cells}"


def _interval(row: Mapping[str, Any], value: str, low: str, high: str) -> str:
    text = _number(row[value])
    if row[low] is None or row[high] is None:
        return text
    return f"{text} [{_number(row[low])}, {_number(row[high])}]"


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.3g}"
