"""The gate of offline trainings against the truth: table docs/results/gate.csv and its page.

    python -m docs.generate.gate RUN...

prints the table. Each argument is a folder that `hindcast run` has written, with one seed. A row is
one trained agent: the verdict on its selected checkpoint (policies.offline.delivery), and its
difference from the same rule on the test windows, in the direction in which more is better. The
column `provenance` is a key of docs/results/provenance.json.
"""

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.dataset import Dataset
from pipeline.dataset import open as open_dataset
from pipeline.storage.run_files import BEST, DESCRIPTION
from policies.networks.checkpoint import load_policy, read_description
from policies.offline.delivery import judge

COLUMNS: Final = (
    "scenario", "recipe", "agent", "rules_read", "rule", "windows", "agreement_difference", "low",
    "high", "delivered", "test_windows", "test_difference", "test_low", "test_high", "provenance",
)  # fmt: skip
TABLE: Final = "gate.csv"


def main(runs: Sequence[str]) -> None:
    """Print one row per agent of finished runs."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in map(Path, runs):
        with (run / "results.csv").open(encoding="utf-8") as file:
            results = list(csv.DictReader(file))
        dataset = open_dataset(run / "dataset")
        for folder in sorted((run / "agents").iterdir()):
            writer.writerow(_row(folder, dataset, results))


def _row(folder: Path, dataset: Dataset, results: Iterable[Mapping[str, str]]) -> list[Any]:
    own = read_description(folder)
    selected = (folder / BEST / DESCRIPTION).is_file()
    verdict = judge(dataset, load_policy(folder / BEST if selected else folder), 0)
    assert verdict is not None, f"{folder}: the log has no rule or no validation episodes"
    chosen = f"{own['agent']}-best" if selected else own["agent"]
    (found,) = (
        r for r in results
        if (r["policy"], r["baseline"]) == (chosen, verdict.rule)
        and r["metric"] == _headline(results)
    )  # fmt: skip
    ends = [float(found[name]) for name in ("paired_difference", "paired_low", "paired_high")]
    if found["higher_is_better"] == "false":
        ends = [-ends[0], -ends[2], -ends[1]]
    return [
        found["scenario"], dataset.recipe.id, own["agent"], len(own["network"].get("rules", ())),
        verdict.rule, verdict.windows,
        *map(_short, (verdict.difference, verdict.low, verdict.high)),
        verdict.delivered, found["windows"], *map(_short, ends), found["provenance"],
    ]  # fmt: skip


def _headline(results: Iterable[Mapping[str, str]]) -> str:
    return next(iter(results))["metric"]


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def outcome_of(row: Mapping[str, str]) -> str:
    """Return "better", "worse" or "unclear": the agent against the rule on test windows."""
    if float(row["test_low"]) > 0.0:
        return "better"
    return "worse" if float(row["test_high"]) < 0.0 else "unclear"


def gate_markdown(content: bytes) -> str:
    """Return the page of the table."""
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    count = {
        (delivered, outcome): sum(
            (r["delivered"], outcome_of(r)) == (delivered, outcome) for r in rows
        )
        for delivered in ("agent", "rule")
        for outcome in ("better", "unclear", "worse")
    }
    accepted = sum(count["agent", outcome] for outcome in ("better", "unclear", "worse"))
    better = count["agent", "better"] + count["rule", "better"]
    about = (
        f"`docs/results/{TABLE}` has {len(rows)} agents of {len({r['recipe'] for r in rows})} "
        "logs. An agent is better or worse than the rule if the paired 95 % interval on the test "
        "windows, which the simulator plays, is on one side of 0."
    )
    rates = (
        f"Of {accepted} agents that were delivered, {count['agent', 'worse']} are worse than the "
        f"rule. Of {better} agents that are better than the rule, {count['rule', 'better']} were "
        "not delivered."
    )
    lines = [
        "# The gate of offline trainings against the truth", "", about, "",
        "| delivered | agent better | unclear | agent worse |", "|---|---|---|---|",
        *(
            f"| the {name} | {count[name, 'better']} | {count[name, 'unclear']} | "
            f"{count[name, 'worse']} |"
            for name in ("agent", "rule")
        ), "", rates, "",
        "| recipe | agent | rule | agreement less that of the rule | delivered | on test windows |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        reads = f" ({r['rules_read']} rules read)" if r["rules_read"] != "0" else ""
        lines.append(
            f"| {r['recipe']} | {r['agent']}{reads} | {r['rule']} | "
            f"{_interval(r, 'agreement_difference', 'low', 'high')} | {r['delivered']} | "
            f"{_interval(r, 'test_difference', 'test_low', 'test_high')}: {outcome_of(r)} |"
        )
    return "\n".join([*lines, ""])


def _interval(row: Mapping[str, str], *names: str) -> str:
    value, low, high = (f"{float(row[n]):+.3g}" if row[n] else "n/a" for n in names)
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    main(sys.argv[1:])
