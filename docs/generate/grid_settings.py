"""Rules of `deferrable` on a grid under other settings: tables of two pages.

    python -m docs.generate.grid_settings

plays them on the test windows of a recipe and writes docs/results/grid_settings.csv. Numbers are
means over windows, but for `jobs` and `suspensions`, which are sums, and `late_percent`, which is
of all jobs. The record of this process goes to stderr, for docs/results/provenance.json.
"""

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from docs.generate.grid_agents import outcomes_of
from docs.generate.text import code, table
from hindcast.pipeline.pages.numbers import write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.policies.entrants import entrants

TABLE: Final = Path(__file__).parents[1] / "results" / "grid_settings.csv"
RECIPE: Final = "deferrable-grid-kth-v1"
_UNLIMITED: Final = 'config.grid_capacity="unlimited"'
_START: Final = 'config.decide="start"'
_PAUSABLE: Final = "config.pausable=true"
_PRICES: Final = "config.load_prices=true"
_KNOWN: Final = ('config.forecast="perfect"', 'config.knows_length="true"')
_RESERVED: Final = (_UNLIMITED, "config.reserved=60")
# table -> rows: what the page calls the settings, the settings, rules
GROUPS: Final[Mapping[str, Sequence[tuple[str, Sequence[str], Sequence[str]]]]] = {
    "cores": (
        ("unlimited", (_UNLIMITED,), ("now", "threshold_24", "lowest_slot", "lowest_window")),
        ("unlimited, all known", (_UNLIMITED, *_KNOWN), ("lowest_window",)),
        ("150", (), ("now", "threshold_24", "lowest_window")),
        ("150, all known", _KNOWN, ("lowest_window",)),
    ),
    "settings": (
        ("", (_PRICES,), ("lowest_window", "lowest_window_priced")),
        ("starts chosen", (_START, _PRICES), ("lowest_window", "lowest_window_priced")),
        ("pausable", (_PAUSABLE,), ("pause_lowest",)),
        ("pausable, unlimited", (_PAUSABLE, _UNLIMITED),
         ("threshold_24", "pause_ecovisor", "pause_lowest")),
        ("pausable, unlimited, all known", (_PAUSABLE, _UNLIMITED, *_KNOWN),
         ("pause_ecovisor", "wait_awhile")),
    ),
    "reserved": (
        ("60 reserved", _RESERVED, ("now", "lowest_window", "reserved_first", "latest")),
        ("60 reserved, starts chosen", (*_RESERVED, _START), ("carbon_time", "reserved_first")),
    ),
}  # fmt: skip
_MEANS: Final = {
    "saved_percent": "saved", "g_per_kwh": "saved_g_per_kwh", "share_of_bound": "share_of_bound",
    "wait_h": "mean_wait_h", "wait_h_by_work": "wait_h_by_work", "peak_cores": "peak_cores",
    "money": "money", "reserved_use": "reserved_use",
}  # fmt: skip
_PERCENT: Final = ("saved_percent", "share_of_bound", "reserved_use")
_SUMS: Final = ("jobs", "suspensions")
_HEADS: Final = {
    "saved_percent": ("saved, %", 1), "g_per_kwh": ("g/kWh", 1),
    "share_of_bound": ("of the bound, %", 1), "wait_h": ("wait, h", 1),
    "wait_h_by_work": ("by work, h", 1), "late_percent": ("late, %", 1),
    "peak_cores": ("peak cores", 0),
    "money": ("bill of a week", 0), "reserved_use": ("reserved in use, %", 1),
}  # fmt: skip
_SHOWN: Final[Mapping[str, Sequence[str]]] = {
    "cores": ("saved_percent", "g_per_kwh", "wait_h", "late_percent", "peak_cores"),
    "settings": (
        "saved_percent", "g_per_kwh", "share_of_bound", "wait_h", "wait_h_by_work",
        "late_percent", "peak_cores",
    ),
    "reserved": ("saved_percent", "g_per_kwh", "wait_h", "money", "reserved_use", "peak_cores"),
}  # fmt: skip


def rows() -> Iterator[dict[str, Any]]:
    """Yield a row for every table, setting and rule."""
    workload = load_source(load_recipe(RECIPE))
    for group, settings_of in GROUPS.items():
        for name, settings, rules in settings_of:
            recipe = load_recipe(RECIPE, settings)
            scenario = load_scenario(recipe.scenario)
            windows = recipe.windows("test")
            instances = [make_instance(recipe, scenario, workload, each) for each in windows]
            for entrant in entrants(recipe, rules):
                played = [outcomes_of(recipe, each, entrant.behaviour) for each in instances]
                row: dict[str, Any] = {
                    "table": group, "cores": name, "settings": " ".join(settings),
                    "policy": entrant.behaviour.name, "windows": len(played),
                }  # fmt: skip
                for column, outcome in _MEANS.items():
                    values = [each.get(outcome) for each in played]
                    row[column] = _mean(values, 100.0 if column in _PERCENT else 1.0)
                for name_of in _SUMS:
                    row[name_of] = sum(int(each.get(name_of, 0)) for each in played)
                late = sum(each["late"] for each in played)
                yield {**row, "late_percent": 100.0 * late / row["jobs"]}


def _mean(values: Sequence[float | None], factor: float) -> float | None:
    known = [each for each in values if each is not None]
    return factor * sum(known) / len(known) if known else None


def main() -> None:
    """Play the rules and write the table."""
    record = provenance()
    key = key_of(record)
    sys.stderr.write(f'"{key}": {json.dumps(record, indent=2)}\n')
    written = pl.DataFrame(list(rows()), infer_schema_length=None)
    rounded = written.with_columns(pl.selectors.float().round(3), provenance=pl.lit(key))
    rounded.write_csv(TABLE)


def grid_settings_pages() -> Mapping[str, str]:
    """Return the tables of docs/scenarios/deferrable.md and docs/how-to/jobs-on-a-grid.md."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return {f"parts/grid-{group}.md": _page(group, found) for group in GROUPS}


def _page(group: str, found: Sequence[Mapping[str, str]]) -> str:
    """Return a table."""
    shown = _SHOWN[group]
    cells = [
        [row["cores"], code(row["policy"]),
         *(write_number(float(row[of]), _HEADS[of][1]) if row[of] else "" for of in shown)]
        for row in found if row["table"] == group
    ]  # fmt: skip
    head = "cores" if group == "cores" else "settings"
    return table([head, "policy", *(_HEADS[of][0] for of in shown)], cells, left=2)


if __name__ == "__main__":
    main()
