"""Answers of a log about each policy: the verdict first, the number second.

The reader's estimator is the first of `ESTIMATORS` that was asked for, leaves out no bias, and is
not refuted by behaviours that were left out: the verdict on a policy is that on its estimate.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from hindcast.pipeline.estimators import ESTIMATORS
from hindcast.pipeline.estimators.verdicts import ANSWERS, CANNOT, ROUGHLY, Held


def described_answers(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the reader's estimator, and a sentence and whether there is an answer by policy.

    `rows` are those of estimates.parquet. The estimator is None if all that were asked for may be
    biased.
    """
    measured = rows.unique("estimator").select("estimator", "left_out", "left_out_held").rows()
    kept = {name for name, policies, held in measured if not Held(policies, held).refuted}
    reader = next((n for n, e in ESTIMATORS.items() if not e.bias and n in kept), None)
    by = {row["policy"]: row for row in rows.filter(estimator=reader or "").to_dicts()}
    policies = rows["policy"].unique(maintain_order=True).to_list()
    return {
        "reader": reader,
        "sentences": {policy: _sentence(policy, by.get(policy)) for policy in policies},
        "answerable": {p: p in by and by[p]["verdict"] in (ANSWERS, ROUGHLY) for p in policies},
    }


def _sentence(policy: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return (
            f"Cannot answer for {policy}: every estimator that was asked for may be biased, or is "
            "refuted by behaviours that were left out."
        )
    why = "; ".join(row["warnings"])
    if row["verdict"] == CANNOT:
        return f"Cannot answer for {policy}: {why}."
    ends = "({:.4g} .. {:.4g})"
    shown = {
        name: f"{row[name]:.4g} " + (
            "(no interval)" if row[low] is None else ends.format(row[low], row[high])
        )
        for name, low, high in (
            ("value", "low", "high"), ("difference", "difference_low", "difference_high"),
        )
    }  # fmt: skip
    text = (
        f"{policy}: {row['verdict']}: {row['estimator']} {shown['value']}, to the log "
        f"{shown['difference']}"
    )
    return f"{text}{f'; {why}' if why else ''}."
