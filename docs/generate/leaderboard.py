"""The page docs/leaderboard.md, made from the submissions below docs/submissions.

    python -m docs.generate

writes it. Each file of docs/submissions is one that `hindcast submit` wrote. All rows are one
family of comparisons: each agent with the best policy without learning of its own evaluation.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from docs.generate.families import ENDS, adjusted, marked, mde
from docs.generate.text import code, prose, table
from hindcast.pipeline.evaluation.anchors import anchor_of
from hindcast.pipeline.evaluation.submissions import Submission, unpack
from hindcast.pipeline.evaluation.summary.cautions import cautions_of
from hindcast.pipeline.evaluation.summary.results import results
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    decimals_telling,
    write_interval,
    write_number,
    write_p_value,
)
from hindcast.pipeline.storage.files import scratch, sha256_file

PAGE: Final = Path(__file__).resolve().parents[1] / "leaderboard.md"
FOLDER: Final = PAGE.with_name("submissions")
_TEXT: Final = """\
# Leaderboard

Agents of anybody, ours included, each from one file that `hindcast submit` wrote. This page is made
from these files by `python -m docs.generate`.

{table}

- **Agent**: seeds of one training are one row, with a 95 % interval over seeds and windows.
  Cautions of its file, such as equal seeds or episodes that a step limit cut off, are counted.
- **Difference**: less the best policy without learning of the same evaluation. All rows are one
  family: bold after Holm's adjustment; `*` marks one whose interval excludes zero and that is not
  below .05 after it. MDE is the difference that such windows show with a power of 80 %
  ([](concepts/windows-and-pairing.md#many-comparisons-and-what-could-have-been-seen)).
- **Score**: 0 is `random`, 1 the best policy without learning of the
  [anchors](reference/tables/anchors.md); empty where the windows are not those of the protocol.
- **Plan**: when it [was written](how-to/plan-before-you-look.md), and what deviates from it.
- **Looks**: other agents that had been scored on these windows when this one was evaluated, and
  when it was submitted, by the submitter's own ledger.

Times of plans and looks are the word of the submitter: a file cannot prove them. Windows of a row
are those of its file, so rows of one problem can be of different windows.

## Enter a row

```text
MINE=mine=agent.py:seed0,agent.py:seed1,agent.py:seed2,agent.py:seed3,agent.py:seed4
hindcast plan RECIPE --policy hold_8 $MINE --out plan.json
hindcast evaluate RECIPE --plan plan.json --out scores
hindcast submit scores --plan plan.json --out mine.zip
```

[Submit your agent](how-to/submit-your-agent.md) explains each step and what is checked. Add the
file to `docs/submissions`, run `python -m docs.generate`, and open a pull request.

## Check a row

```text
hindcast check-submission docs/submissions/slots-counterfactual.zip
```

It plays the agents again from the recipe (those of code with `--run-code`), compares every score,
and says what does not hold. Its exit code is 1 then.
"""


class Row(NamedTuple):
    """An agent of a submission, against the best policy without learning."""

    file: Path
    submission: Submission
    cautions: int
    plan: str
    row: Mapping[str, Any]


def leaderboard() -> str:
    """Return the text of the page."""
    rows = [row for file in sorted(FOLDER.glob("*.zip")) for row in _rows(file)]
    digits = [
        decimals_telling([r.row[end] for end in ENDS], decimals_for([r.row[ENDS[0]]], digits=2))
        for r in rows
    ]
    plain = [r.row for r in rows]
    cells = zip(rows, digits, marked(plain, digits), adjusted(plain), strict=True)
    head = ["agent", "recipe", "windows x seeds", "mean", "best without learning", "difference",
            "p, Holm", "MDE", "score", "plan", "looks", "file, SHA-256"]  # fmt: skip
    return _TEXT.format(table=table(head, [_cells(*one) for one in cells]))


def _rows(file: Path) -> list[Row]:
    """Return the agents of a submission, each against the best policy without learning."""
    with scratch() as folder:
        submission = unpack(file, folder)
        summary = summarise([folder])
        found, cautions = results(summary), len(cautions_of(submission.folder))
    (only,) = summary.settings
    plan = only.setting.first.plan
    written = (
        "none"
        if plan is None
        else ", ".join(
            [
                plan.written[:10],
                *([count_of(len(plan.deviations), "deviation")] if plan.deviations else []),
            ]
        )
    )
    better = "true" if found["higher_is_better"][0] else "false"
    learned = {p.group for p in only.setting.first.policies if p.kind == "learned"}
    return [
        Row(file, submission, cautions, written, row | {"higher_is_better": better})
        for row in found.iter_rows(named=True)
        if row["policy"] in learned and row["baseline"] == only.strongest
    ]  # fmt: skip


def _cells(one: Row, digits: int, difference: str, p: float) -> list[str]:
    row, submission = one.row, one.submission
    recipe = submission.recipe
    told = f" ({count_of(one.cautions, 'caution')})" if one.cautions else ""
    anchor = anchor_of(recipe, submission.split)
    score = "" if anchor is None else write_number(anchor.score(row["mean"]), 3)
    looks = "not counted" if None in submission.looks else "{}, {}".format(*submission.looks)
    interval = write_interval(row["low"], row["high"], digits)
    return [
        prose(row["policy"]) + told, f"{code(recipe.id)}, {submission.split}",
        f"{row['windows']} x {row['seeds']}",
        f"{code(row['metric'])} {write_number(row['mean'], digits)} ({interval})",
        f"{code(row['baseline'])} {write_number(row['mean'] - row['paired_difference'], digits)}",
        difference, write_p_value(p), mde(row, digits), score, one.plan, looks,
        f"[{one.file.name}](submissions/{one.file.name}) {code(sha256_file(one.file)[:12])}",
    ]  # fmt: skip
