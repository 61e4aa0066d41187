"""Distribution of differences to a policy, window by window: counts and the numbers of a box plot.

    hindcast report EVALUATION --spread first_fit tetris_reference

    difference   other - policy, of the headline metric; above 0 where the policy is lower
    row          policy, other, windows, below (differences < 0), equal, above, mean, deviation,
                 lowest, quartile_1, median, quartile_3, highest

Each training seed of an agent has its row; the mean over its seeds has a row under the agent's
name. The paper on DeepJS reports its results in this form (Li & Hu, ICBDC 2019, Figures 6 and 7,
Table 2).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.evaluation.summary.pairing import read_settings
from hindcast.pipeline.statistics.intervals import Array, tie_tolerance

_QUARTILES: Final = ("lowest", "quartile_1", "median", "quartile_3", "highest")
COLUMNS: Final = (
    "policy", "other", "windows", "below", "equal", "above", "mean", "deviation", *_QUARTILES,
)  # fmt: skip


def spread(policy: Array, other: Array) -> dict[str, float]:
    """Return counts, mean, sample deviation and quartiles of other - policy, (windows,) each."""
    apart = other - policy
    tie = tie_tolerance(policy, other)
    quartiles = np.quantile(apart, [0.0, 0.25, 0.5, 0.75, 1.0])
    return {
        "windows": len(apart),
        "below": int((apart < -tie).sum()),
        "equal": int((np.abs(apart) <= tie).sum()),
        "above": int((apart > tie).sum()),
        "mean": float(apart.mean()),
        "deviation": float(apart.std(ddof=1)) if len(apart) > 1 else 0.0,
        **dict(zip(_QUARTILES, map(float, quartiles), strict=True)),
    }


def spreads(folder: Path, against: Sequence[str]) -> pl.DataFrame:
    """Return COLUMNS of every policy of an evaluation folder against every policy of `against`.

    Rows are sorted by mean difference, largest first. Raises UnknownName for a policy that was not
    evaluated, DatasetError for a folder that is no evaluation, InputError without another policy.
    """
    rows = []
    for setting in read_settings([folder]):
        pairing = setting.headline
        known = pairing.by_name
        for name in against:
            if name not in known:
                raise unknown_name("policy", name, known)
        for policy in pairing.policies:
            for label, values in policy.each:
                rows += [
                    {"policy": label, "other": name, **spread(values, known[name].window_means)}
                    for name in against
                    if name != policy.name
                ]
    if not rows:
        raise InputError(
            f"{folder}: there is no policy beside {', '.join(against)} to compare with it"
        )
    return pl.DataFrame(rows, infer_schema_length=None).sort("mean", descending=True)
