"""States of a job of Slurm, by name and by their number in its database."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from hindcast.pipeline.traces.field_values import looked_up

# State -> outcome of hindcast.pipeline.traces.job_logs.
STATES: Final[Mapping[str, str]] = {
    "COMPLETED": "completed", "CD": "completed",
    **dict.fromkeys((
        "FAILED", "F", "TIMEOUT", "TO", "OUT_OF_MEMORY", "OUT_OF_ME", "OOM", "NODE_FAIL", "NF",
        "BOOT_FAIL", "BF", "DEADLINE", "DL", "PREEMPTED", "PR", "LAUNCH_FAILED",
        "RECONFIG_FAIL"), "failed"),
    "CANCELLED": "cancelled", "CA": "cancelled", "REVOKED": "cancelled", "RV": "cancelled",
    **dict.fromkeys((
        "PENDING", "PD", "REQUEUE_HOLD", "RESV_DEL_HOLD", "REQUEUE_FED",
        "SPECIAL_EXIT"), "waiting"),
    **dict.fromkeys((
        "RUNNING", "R", "SUSPENDED", "S", "COMPLETING", "CG", "CONFIGURING", "CF", "RESIZING",
        "RS", "SIGNALING", "STAGE_OUT", "STOPPED", "ST", "POWER_UP_NODE", "UPDATE_DB"), "running"),
    "REQUEUED": "requeued", "RQ": "requeued",
}  # fmt: skip
STATE_NUMBERS: Final = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
    "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
)  # fmt: skip
FLAGS: Final = 256  # and above: flags beside the number of a state
_MOST: Final = 65_536
_INTERRUPTED: Final = ("NODE_FAIL", "NF", "BOOT_FAIL", "BF", "PREEMPTED", "PR")


def state_word(text: pl.Expr) -> pl.Expr:
    """Return the name of a state in capitals: that of `CANCELLED by 1000` or of a number."""
    number = text.str.extract(r"^(\d{1,5})(?:\.0)?$").cast(pl.Int64, strict=False)
    state = pl.when(number < _MOST).then(number % FLAGS).cast(pl.String)
    by_number = looked_up(state, {str(place): name for place, name in enumerate(STATE_NUMBERS)})
    return pl.coalesce(text.str.extract(r"^([A-Za-z_]+)").str.to_uppercase(), by_number)


def is_interrupted(word: pl.Expr) -> pl.Expr:
    """Return whether a job ended since its nodes did, or were needed by another job."""
    return word.is_in(_INTERRUPTED).fill_null(value=False)
