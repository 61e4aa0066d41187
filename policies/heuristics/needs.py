"""Columns that rules need, which some settings add."""

from collections.abc import Sequence
from typing import Final

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.spec import Spec

# Settings of [config] that give candidates a column.
_SETTINGS: Final = {
    "is_wait": "allow_wait = true", "log_weight": "run_times = true",
    "log_expected": "run_times = true", "priced_now": "load_prices = true",
    "ran_last": "pausable = true", "on_reserved": "reserved to the number of reserved cores",
}  # fmt: skip


def require_columns(name: str, needed: Sequence[str], spec: Spec) -> None:
    """Raise InputError unless candidates have the columns that a rule needs."""
    missing = [column for column in needed if column not in {f.name for f in spec.candidates}]
    if missing:
        setting = _SETTINGS.get(missing[0])
        raise InputError(
            f"policy {name!r} of scenario {spec.scenario} needs the column {missing[0]!r}, which "
            "candidates do not have under these settings"
            + (f"; set config.{setting}" if setting else "")
        )
