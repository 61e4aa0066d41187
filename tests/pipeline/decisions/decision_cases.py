"""Logs of decisions whose right values are known, and small logs made on the spot."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.log import DecisionLog
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.storage.location import traces_folder
from tests.conftest import require_traces

ROWS = {
    "kind": "decisions", "shape": "rows",
    "columns": {"decision": "id", "time": "t", "candidate": "arm", "chosen": "chosen",
                "feasible": "ok", "probability": "p", "reward": "r"},
    "context": {"numbers": ["hour"], "categories": ["tier"]},
    "candidates": {"numbers": ["x"], "categories": ["size"]},
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line of the table of right values: counts, and value (error) of three estimators."""

    file: str
    counts: tuple[int, ...]
    policy: str
    corrected: bool
    numbers: tuple[float, ...]


def cases() -> Path:
    """Return the folder of cases; skip if it is not there."""
    return require_traces("../cases/decisions").resolve()


def real() -> Path:
    """Return the folder of real logs; skip if it is not there."""
    return require_traces("decisions")


@cache
def case(name: str) -> DecisionLog:
    """Return the log of a case, read once."""
    return read_log(cases() / name)


def right_values() -> list[Row]:
    """Return the table of right values of the good logs, without those by session.

    It is empty where the cases are not there, since tests are collected before they are skipped.
    """
    table = traces_folder() / "../cases/decisions/README.md"
    found, file, counts = [], "", ()
    for line in table.read_text(encoding="utf-8").splitlines() if table.exists() else ():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 9 or "sessions" in cells[3] or not re.search(r"\d\.\d", cells[4]):
            continue
        if cells[0]:
            file, counts = cells[0], tuple(int(n) for n in cells[1].split(" / "))
        numbers = tuple(float(n) for n in re.findall(r"-?\d+\.\d+", " ".join(cells[4:])))
        policy = cells[3].rstrip(" *")
        found.append(Row(file, counts, policy, cells[3].endswith("*"), numbers))
    return found


def long_table(decisions: int = 12, rng: np.random.Generator | None = None) -> pl.DataFrame:
    """Return a small log in rows, two or three candidates a decision; choices are drawn by rng."""
    rows = []
    for d in range(decisions):
        arms = ["ash", "elm", "fir"][: 2 + d % 2]
        p = [0.25, 0.75] if len(arms) == 2 else [0.5, 0.3, 0.2]
        drawn = (d * 7) % len(arms) if rng is None else int(rng.choice(len(arms), p=p))
        for k, arm in enumerate(arms):
            taken = k == drawn
            rows.append({
                "id": f"d{d}", "t": f"2031-03-01T{8 + d // 60:02}:{d % 60:02}:00Z", "hour": d % 5,
                "tier": ("gold", "basic")[d % 2], "arm": arm, "x": (d * 3 + k * 5) % 7 / 7,
                "size": ("small", "large")[k % 2], "ok": 1, "chosen": int(taken), "p": p[k],
                "r": d % 3 - 0.5 * k if taken else None,
            })  # fmt: skip
    return pl.DataFrame(rows)


def nested_records(table: pl.DataFrame) -> list[dict]:
    """Return the same decisions as nested records."""
    records = []
    for _, rows in table.group_by("id", maintain_order=True):
        first = rows.row(0, named=True)
        taken = rows["chosen"].arg_max()
        records.append({
            "id": first["id"], "t": first["t"],
            "ctx": {"hour": first["hour"], "tier": first["tier"]},
            "arms": rows.select("arm", "x", "size", "ok").to_dicts(), "chosen": taken,
            "p": rows["p"].to_list(), "r": rows["r"][taken],
        })  # fmt: skip
    return records


NESTED = {
    "kind": "decisions", "shape": "nested",
    "columns": {"decision": "id", "time": "t", "chosen": "chosen", "probabilities": "p",
                "reward": "r"},
    "context": {"numbers": {"hour": "ctx.hour"}, "categories": {"tier": "ctx.tier"}},
    "candidates": {"list": "arms", "id": "arm", "feasible": "ok", "numbers": ["x"],
                   "categories": ["size"]},
}  # fmt: skip


def dsjson_lines(table: pl.DataFrame) -> list[str]:
    """Return the same decisions as dsjson."""
    lines = []
    for record in nested_records(table):
        order = [record["chosen"], *(k for k in range(len(record["p"])) if k != record["chosen"])]
        lines.append(json.dumps({
            "_label_cost": -record["r"], "_label_probability": record["p"][record["chosen"]],
            "_labelIndex": record["chosen"], "EventId": record["id"], "Timestamp": record["t"],
            "a": [k + 1 for k in order], "p": [record["p"][k] for k in order],
            "c": {"u": record["ctx"], "_multi": [
                {"_tag": arm["arm"], "f": {"x": arm["x"], "size": arm["size"]}}
                for arm in record["arms"]]},
        }))  # fmt: skip
    return lines
