"""Tables II and III of Liu et al. from an evaluation of `multicluster`.

    hindcast calibrate multicluster-scores EVALUATION --policy sf_e most_free_now

    columns    policy, other, windows, tmdl, other_tmdl, tmdl_ratio, ajdr_percent,
               other_ajdr_percent, ajdr_ratio, score_a .. score_d

The numbers are means over the windows. A ratio is the number of `other` divided by the number of
`policy`. A score is the policy's share of 100
(hindcast.flows.papers.timecritical.paper_scores). Every training seed of an agent has its own
row; the row of the agent itself uses its mean over the seeds in every window.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.commands.report import rows_of
from hindcast.flows.papers.timecritical.paper_scores import score_a, score_b, score_c, score_d
from hindcast.pipeline.errors import DatasetError, unknown_name
from hindcast.pipeline.evaluation.summary.pairing import Setting, read_settings
from hindcast.pipeline.statistics.intervals import Array
from hindcast.pipeline.storage.location import location

_METRICS: Final = ("tmdl", "ajdr_percent")


def comparison(tmdl: Array, ajdr: Array, other_tmdl: Array, other_ajdr: Array) -> dict[str, float]:
    """Return the columns from `windows` on, from one number per window, (windows,), each."""
    means = [float(np.mean(values)) for values in (tmdl, ajdr, other_tmdl, other_ajdr)]
    four = (tmdl, ajdr, other_tmdl, other_ajdr)
    return {
        "windows": len(tmdl),
        "tmdl": means[0],
        "other_tmdl": means[2],
        "tmdl_ratio": means[2] / means[0] if means[0] > 0 else float("inf"),
        "ajdr_percent": means[1],
        "other_ajdr_percent": means[3],
        "ajdr_ratio": means[3] / means[1] if means[1] > 0 else float("inf"),
        "score_a": score_a(*four),
        "score_b": score_b(*four),
        "score_c": score_c(*four),
        "score_d": score_d(*four),
    }


def comparisons(folder: Path, against: Sequence[str]) -> pl.DataFrame:
    """Return one row for every policy of an evaluation folder and every one of `against`.

    Raises UnknownName for a policy that was not evaluated, and DatasetError for a folder that holds
    no evaluation, or one of another scenario.
    """
    rows = []
    for setting in read_settings([folder]):
        tmdl, ajdr = (_by_label(setting, metric) for metric in _METRICS)
        for name in against:
            if name not in tmdl:
                raise unknown_name("policy", name, tmdl)
            rows += [
                {
                    "policy": label,
                    "other": name,
                    **comparison(tmdl[label], ajdr[label], tmdl[name], ajdr[name]),
                }
                for label in tmdl
                if label != name
            ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _by_label(setting: Setting, metric: str) -> dict[str, Array]:
    """Return one number per window, (windows,), for every policy and every training seed."""
    if metric not in {m.name for m in setting.metrics}:
        raise DatasetError(
            f"{setting.first.folder} has no metric {metric!r}; expected an evaluation of "
            "multicluster"
        )
    found: dict[str, Array] = {}
    for policy in setting.pair(metric).policies:
        found |= dict(policy.each)
    return found


def table(request: Any) -> dict[str, Any]:
    """Return the lines and rows of `hindcast calibrate multicluster-scores`."""
    return rows_of(comparisons(location(request.folders[0]), request.policies))
