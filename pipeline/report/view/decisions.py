"""Values of the page about decisions: the first one that differs, and those that cost most."""

from typing import Any

import numpy as np

from hindcast.pipeline.pages.numbers import TimeUnit, count_of
from hindcast.pipeline.pages.tables import NOTHING, Badge, Cell, Row, Table
from hindcast.pipeline.report.view.model import Model
from hindcast.pipeline.schedules.difference import Candidate, Comparison, Difference

_PARTS = 24  # a link shows this part of the window


def decisions_part(model: Model, comparison: Comparison, unit: TimeUnit) -> dict[str, Any]:
    """Return the values of the two sections, see view.html.jinja; empty if nothing differs."""
    first, names = comparison.first, [s.facts["policy"] for s in model.schedules]
    if first is None:
        return {}
    differing = "" if comparison.differing is None else (
        f"On the way of {names[0]}, {names[1]} would have chosen otherwise at "
        f"{comparison.differing:,} of {count_of(comparison.decisions[0], 'decision')}, each time "
        "in the same state."
    )  # fmt: skip
    return {
        "sentence": first.sentence,
        "link": _link(model, first),
        "candidates": _candidates(first),
        "came": _came(model, first, unit),
        "differing": differing,
        "costliest": _costliest(model, comparison, unit) if comparison.costliest else None,
    }


def _row_of(model: Model, job: int | None) -> int | None:
    """Return the row of a job on the page."""
    if job is None:
        return None
    rows = np.flatnonzero(model.jobs == job)
    return int(rows[0]) if len(rows) else None


def _link(model: Model, of: Difference) -> str:
    """Return an address that shows the moment of a decision, and the job that was chosen."""
    facts = model.schedules[0].facts
    wide = max((facts["to_s"] - facts["from_s"]) / _PARTS, 1.0)
    rows = [row for row in (_row_of(model, job) for job in of.jobs) if row is not None]
    job = f"&job={rows[0]}" if rows else ""
    return f"#t={of.at_s - wide / 4:.3f}..{of.at_s + wide:.3f}{job}"


def _number(value: float | None) -> Cell:
    return Cell(NOTHING) if value is None else Cell(f"{value:,.5g}", float(value))


def _candidates(of: Difference) -> Table:
    """Return the candidates of a decision: those that were chosen first."""
    features = list(of.candidates[0].features)
    rows = sorted(of.candidates, key=lambda one: (one.row not in of.chosen, one.row))
    a, b = of.policies
    known = any(p is not None for one in of.candidates for p in one.probabilities)
    head = ["candidate", f"score by {a}", f"score by {b}"]
    head += [f"probability under {a}", f"probability under {b}"] * known
    shown = "" if len(of.candidates) == of.count else (
        f" Of {of.count:,}, those with the best scores."
    )  # fmt: skip
    return Table(
        "The candidates of this decision,",
        f" with scores, probabilities and features; both policies see the same state.{shown}",
        [*head, *features],
        [_candidate(one, of, features, known) for one in rows],
    )


def _candidate(one: Candidate, of: Difference, features: list[str], known: bool) -> Row:
    badges = [
        Badge(f"{name} chooses it", "learned")
        for name, row in zip(of.policies, of.chosen, strict=True)
        if row == one.row
    ]
    badges += [] if one.feasible else [Badge("not feasible")]
    cells = [Cell(one.text, float(one.row), badges=badges), *map(_number, one.scores)]
    cells += list(map(_number, one.probabilities)) if known else []
    cells += [_number(one.features.get(name)) for name in features]
    return Row(cells, "strongest" if one.row in of.chosen else "")


def _came(model: Model, of: Difference, unit: TimeUnit) -> Table | None:
    """Return what became of the two jobs under both policies."""
    rows = []
    for which, job in enumerate(of.jobs):
        if job is None or job in of.jobs[:which]:
            continue
        text = next(one.text for one in of.candidates if one.row == of.chosen[which])
        cells = [Cell(text)]
        for came in (of.came[0][which], of.came[1][which]):
            wait = None if came is None else came.wait_s
            slow = None if came is None else came.bounded_slowdown
            cells += [Cell(NOTHING) if wait is None else Cell(unit.text(wait), wait), _number(slow)]
        rows.append(Row(cells))
    names = [schedule.facts["policy"] for schedule in model.schedules]
    head = ["", *(f"{what} under {name}" for name in names for what in ("wait", "slowdown"))]
    text = " All later decisions have a part in it."
    return Table("What became of these jobs.", text, head, rows) if rows else None


def _costliest(model: Model, comparison: Comparison, unit: TimeUnit) -> Table:
    names = [schedule.facts["policy"] for schedule in model.schedules]
    rows = []
    for one in comparison.costliest:
        texts = {of.row: of.text for of in one.candidates}
        cost = Cell(NOTHING) if one.cost_s is None else Cell(unit.text(one.cost_s), one.cost_s)
        rows.append(Row([
            Cell(f"decision {one.decision:,}", float(one.decision), link=_link(model, one)),
            *(Cell(texts.get(row, NOTHING)) for row in one.chosen), Cell(one.sentence), cost,
        ]))  # fmt: skip
    text = (
        f" On the way of {names[0]}. The cost is the wait of the two jobs under {names[0]} less "
        f"that under {names[1]}; all later decisions have a part in it. A job is listed once."
    )
    head = ["decision", f"{names[0]} chooses", f"{names[1]} would", "in words", "cost in wait"]
    return Table("Where it differs most.", text, head, rows, words=4)
