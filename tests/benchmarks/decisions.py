"""A log of decisions of eight candidates as a dataset, and questions to it.

    python -m tests.benchmarks decisions

The log is drawn: four numbers and a category of each candidate, two features of the decision, all
probabilities. It is ingested from a long table (a row per candidate), beside `polars.read_csv` of
the same file, and from dsjson, beside `json.loads` of its lines. Three policies are asked about,
beside reading the record of the dataset alone. Times are of the processor, with one thread of
polars if POLARS_MAX_THREADS=1 is set.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from hindcast.pipeline.decisions.conversion import ingest
from hindcast.policies.ope.logs import ask

DECISIONS, CANDIDATES = 100_000, 8
POLICIES = ("uniform", "lowest:a", "highest:b")
MAPPING = """
kind = "decisions"
file = "log.csv"
shape = "rows"
columns = {decision = "decision", candidate = "candidate", time = "time", chosen = "chosen", probability = "p", reward = "reward"}
context = {numbers = ["load"], categories = ["tenant"]}
candidates = {numbers = ["a", "b", "e", "f"], categories = ["kind"]}
"""  # noqa: E501


def draw(folder: Path, decisions: int) -> None:
    """Write the same decisions as log.csv, with its mapping log.toml, and as log.dsjson."""
    rng = np.random.default_rng(0)
    shape = (decisions, CANDIDATES)
    x = np.round(rng.normal(size=(*shape, 4)), 4)
    kind = np.array(["small", "medium", "large", "huge", "odd"])[rng.integers(0, 5, shape)]
    load, tenant = np.round(rng.random(decisions), 4), rng.integers(0, 6, decisions)
    p = np.exp(0.7 * x[:, :, 0])
    p = 0.9 * p / p.sum(axis=1, keepdims=True) + 0.1 / CANDIDATES
    taken = np.minimum((p.cumsum(axis=1) < rng.random((decisions, 1))).sum(axis=1), CANDIDATES - 1)
    reward = np.round(0.3 * x[np.arange(decisions), taken, 1] + rng.normal(size=decisions), 4)
    ids = [f"d{k:08}" for k in range(decisions)]
    pl.DataFrame({
        "decision": np.repeat(ids, CANDIDATES),
        "candidate": np.tile([f"m{k}" for k in range(CANDIDATES)], decisions),
        "time": np.repeat(1_930_118_400 + np.arange(decisions), CANDIDATES),
        "load": np.repeat(load, CANDIDATES),
        "tenant": np.repeat([f"t{t}" for t in tenant], CANDIDATES),
        **{name: x[:, :, k].ravel() for k, name in enumerate("abef")}, "kind": kind.ravel(),
        "chosen": (np.arange(CANDIDATES) == taken[:, None]).astype(np.int8).ravel(),
        "p": p.ravel(), "reward": np.repeat(reward, CANDIDATES),
    }).write_csv(folder / "log.csv")  # fmt: skip
    (folder / "log.toml").write_text(MAPPING, encoding="utf-8")
    with (folder / "log.dsjson").open("w", encoding="utf-8") as file:
        for k, at in enumerate(taken.tolist()):
            order = [at, *(c for c in range(CANDIDATES) if c != at)]
            multi = [
                {"_tag": f"m{c}", "i": {**dict(zip("abef", x[k, c].tolist(), strict=True)),
                                        "kind": str(kind[k, c])}}
                for c in range(CANDIDATES)
            ]  # fmt: skip
            record = {
                "_label_cost": -reward[k].item(), "_label_probability": p[k, at].item(),
                "_labelIndex": at, "EventId": ids[k], "Timestamp": 1_930_118_400 + k,
                "a": [c + 1 for c in order], "p": p[k, order].tolist(),
                "c": {"u": {"load": load[k].item(), "tenant": f"t{tenant[k]}"}, "_multi": multi},
            }  # fmt: skip
            file.write(json.dumps(record) + "\n")


def seconds(run: Callable[[], object]) -> float:
    """Return the processor's seconds of a run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def parsed(path: Path) -> None:
    """Read lines of JSON, and forget them."""
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def measure() -> list[tuple[str, float, str, str]]:
    """Return rows of (quantity, value, unit, comparison)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        draw(folder, 1000)
        ingest(folder / "log.toml", folder / "first")  # what the first run of a process looks up
        ask(folder / "first", POLICIES)
        draw(folder, DECISIONS)
        rows = folder / "rows"
        of_rows = seconds(lambda: ingest(folder / "log.toml", rows))
        of_csv = seconds(lambda: pl.read_csv(folder / "log.csv"))
        of_dsjson = seconds(lambda: ingest(folder / "log.dsjson", folder / "dsjson"))
        of_json = seconds(lambda: parsed(folder / "log.dsjson"))
        of_ope = seconds(lambda: ask(rows, POLICIES, split="all"))
        of_record = seconds(lambda: pl.read_parquet(rows / "recorded.parquet"))
    return [
        ("ingest of a long table, 8 candidates", DECISIONS / of_rows, "decisions/s",
         f"{of_rows / of_csv:.1f} times polars.read_csv alone"),
        ("ingest of dsjson, 8 candidates", DECISIONS / of_dsjson, "decisions/s",
         f"{of_dsjson / of_json:.1f} times json.loads alone"),
        ("three policies asked about", DECISIONS / of_ope, "decisions/s",
         f"{of_ope / of_record:.1f} times reading the record alone"),
    ]  # fmt: skip
