"""The gates of offline trainings against the truth: table docs/results/gate.csv and its page.

    python -m docs.generate.gate RUN...

prints the table. Each argument is a folder that `hindcast run` has written, with one seed. A row is
one trained agent and one gate: the verdict on its selected checkpoint
(hindcast.policies.training.delivery), and its difference from the same rule on the test windows, in
the direction in which more is better. The column `provenance` is a key of
docs/results/provenance.json.
"""

import csv
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from docs.generate.families import EARLIER
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import open as open_dataset
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.statistics.percentile import widened
from hindcast.pipeline.storage.run_files import BEST, DESCRIPTION
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.training.delivery.gates import gate_of
from hindcast.policies.training.delivery.verdict import Verdict

COLUMNS: Final = (
    "scenario", "recipe", "agent", "rules_read", "gate", "rule", "metric", "windows", "difference",
    "low", "high", "delivered", "test_windows", "test_difference", "test_low", "test_high",
    "provenance",
)  # fmt: skip
TABLE: Final = "gate.csv"
_GATES: Final = {
    "simulator": "The simulator: both play the validation windows",
    "log": "The log alone: agreement of probabilities with outcomes",
}


def main(runs: Sequence[str]) -> None:
    """Print one row per agent of finished runs and gate."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in map(Path, runs):
        with (run / "results.csv").open(encoding="utf-8") as file:
            results = list(csv.DictReader(file))
        dataset = open_dataset(run / "dataset")
        for folder in sorted((run / "agents").iterdir()):
            writer.writerows(_rows(folder, dataset, results))


def _rows(
    folder: Path, dataset: Dataset, results: Sequence[Mapping[str, str]]
) -> Iterator[list[Any]]:
    own = read_description(folder)
    selected = (folder / BEST / DESCRIPTION).is_file()
    policy = load_policy(folder / BEST if selected else folder)
    chosen = f"{own['agent']}-best" if selected else own["agent"]
    recipe, rules = dataset.recipe.id.partition("+")[0], len(own["network"].get("rules", ()))
    for gate in _GATES:
        verdict = gate_of(dataset, 0, gate)(policy)
        assert verdict is not None, f"{folder}: the log has no rule or no validation episodes"
        yield _row([recipe, own["agent"], rules], gate, verdict, chosen, results)


def _row(
    about: Sequence[Any],
    gate: str,
    verdict: Verdict,
    chosen: str,
    results: Sequence[Mapping[str, str]],
) -> list[Any]:
    headline = results[0]["metric"]
    (found,) = (
        r for r in results
        if (r["policy"], r["baseline"], r["metric"]) == (chosen, verdict.rule, headline)
    )  # fmt: skip
    ends = [float(found[name]) for name in ("paired_difference", "paired_low", "paired_high")]
    if found["higher_is_better"] == "false":
        ends = [-ends[0], -ends[2], -ends[1]]
    return [
        found["scenario"], *about, gate, verdict.rule, verdict.metric, verdict.windows,
        *map(_short, (verdict.difference, verdict.low, verdict.high)),
        verdict.delivered, found["windows"], *map(_short, ends), found["provenance"],
    ]  # fmt: skip


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def outcome_of(row: Mapping[str, str]) -> str:
    """Return "better", "worse" or "unclear": the agent against the rule on test windows."""
    _, low, high = _on_test_windows(row)
    return "better" if low > 0.0 else "worse" if high < 0.0 else "unclear"


def gate_markdown(content: bytes) -> str:
    """Return the page of the table."""
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    agents = len({(r["recipe"], r["agent"]) for r in rows})
    about = (
        f"`docs/results/{TABLE}` has {agents} agents of {len({r['recipe'] for r in rows})} "
        "logs, each judged by both gates. An agent is better or worse than the rule if the paired "
        "95 % interval on the test windows, which the simulator plays, is on one side of 0. These "
        f"are {EARLIER}; those of the gate are as the gate had them."
    )
    lines = ["# The gates of offline trainings against the truth", "", about, ""]
    for gate, title in _GATES.items():
        lines += _section(title, [r for r in rows if r["gate"] == gate])
    return "\n".join(lines)


def _section(title: str, rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the counts and the rows of one gate."""
    count = {
        (delivered, outcome): sum(
            (r["delivered"], outcome_of(r)) == (delivered, outcome) for r in rows
        )
        for delivered in ("agent", "rule")
        for outcome in ("better", "unclear", "worse")
    }
    accepted = sum(count["agent", outcome] for outcome in ("better", "unclear", "worse"))
    better = count["agent", "better"] + count["rule", "better"]
    errors = (
        f"Delivered agents: {accepted}. Worse than the rule of them: {count['agent', 'worse']}. "
        f"Agents better than the rule: {better}. Not delivered of them: {count['rule', 'better']}."
    )
    lines = [
        f"## {title}", "",
        "| delivered | agent better | unclear | agent worse |", "|---|---|---|---|",
        *(
            f"| the {name} | {count[name, 'better']} | {count[name, 'unclear']} | "
            f"{count[name, 'worse']} |"
            for name in ("agent", "rule")
        ), "", errors, "",
        "| recipe | agent | rule | compared | agent less rule | delivered | on test windows |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        reads = f" ({r['rules_read']} rules read)" if r["rules_read"] != "0" else ""
        lines.append(
            f"| {r['recipe']} | {r['agent']}{reads} | {r['rule']} | {r['metric']} | "
            f"{_interval(*(r[name] for name in ('difference', 'low', 'high')))} | "
            f"{r['delivered']} | {_interval(*_on_test_windows(r))}: {outcome_of(r)} |"
        )
    return [*lines, ""]


def _on_test_windows(row: Mapping[str, str]) -> Interval:
    """Return the difference of one training seed on the test windows, with its interval."""
    value, low, high = (float(row[n]) for n in ("test_difference", "test_low", "test_high"))
    return widened(value, low, high, int(row["test_windows"]), seeds=1)


def _interval(*numbers: str | float) -> str:
    value, low, high = (f"{float(n):+.3g}" if n != "" else "n/a" for n in numbers)
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    main(sys.argv[1:])
