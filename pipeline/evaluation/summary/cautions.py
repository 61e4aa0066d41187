"""Cautions of an evaluation: equal training seeds, and episodes that were cut off.

Both are found in evaluation.json and scores.parquet alone, so that `evaluate`, `report`, `submit`
and `check-submission` say the same of the same files.

A simulator says how its episode ended (`hindcast.pipeline.simulation.kernel`): TERMINATED at the
end of the problem, TRUNCATED where a step limit cut it off. A problem that ends by design after a
fixed time, such as an episode of `thermal` or `deferrable`, terminates there, so that the metric
`truncated` is 0 and there is no caution.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.evaluation.summary.evaluations import (
    KEY,
    PolicyEntry,
    read_evaluation,
    read_scores,
)
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.workloads.caveats import Caveat

EQUAL_SEEDS: Final = "equal_seeds"
CUT_OFF: Final = "cut_off"
_NAMED: Final = 5  # policies that a sentence names; more are counted


def cautions_of(folder: Path) -> tuple[Caveat, ...]:
    """Return the cautions of an evaluation folder; DatasetError if it is none."""
    return cautions(read_evaluation(folder).policies, read_scores(folder))


def cautions(policies: Iterable[PolicyEntry], scores: pl.DataFrame) -> tuple[Caveat, ...]:
    """Return the cautions of policies with these scores, as `read_scores` returns them.

    Seeds for which the gate of their training delivered a rule are left out: the same rule for
    several seeds is no training that is counted twice.
    """
    groups: dict[str, list[PolicyEntry]] = {}
    for entry in policies:
        groups.setdefault(entry.group, []).append(entry)
    found = (_equal_seeds(group, members, scores) for group, members in groups.items())
    return (*filter(None, found), *_cut_off(scores))


def _equal_seeds(group: str, seeds: list[PolicyEntry], scores: pl.DataFrame) -> Caveat | None:
    """Return a caveat if seeds of an agent have the weights or the scores of earlier ones."""
    first: dict[str, str] = {}
    told = list[str]()
    if "-delivered" in group and not any(each.delivered for each in seeds):
        return None  # an evaluation of before this was recorded: seeds may have delivered one rule
    for seed in (each for each in seeds if each.kind == "learned" and each.delivered != "rule"):
        own = scores.filter(policy=seed.name).drop("policy").sort(KEY[1:])
        same = first.setdefault(seed.digest or seed.name, seed.name)
        alike = seed.name if own.is_empty() else first.setdefault(own.write_csv(), seed.name)
        if same != seed.name:
            told.append(f"{seed.name} has the weights of {same}")
        elif alike != seed.name:
            told.append(f"{seed.name} has the scores of {alike} on every window")
    if not told:
        return None
    repeats = "repeats" if len(told) == 1 else "repeat"
    text = (
        f"of {count_of(len(seeds), 'seed')} of {group}, {len(told)} {repeats} an earlier one: "
        f"{_some(told)}. Equal weights are one training; equal scores are one training, or several "
        f"that choose alike. A training that is counted again makes the interval of {group} over "
        "seeds too narrow."
    )
    return Caveat(EQUAL_SEEDS, text, {"seeds": len(seeds), "repeated": len(told)})


def _cut_off(scores: pl.DataFrame) -> tuple[Caveat, ...]:
    """Return a caveat that counts the episodes that a step limit cut off, policy by policy."""
    known = scores.filter((pl.col("metric") == "truncated") & pl.col("value").is_not_nan())
    counts = known.group_by("policy", maintain_order=True).agg(
        cut=(pl.col("value") > 0.0).sum(), episodes=pl.len()
    )
    cut = counts.filter(pl.col("cut") > 0)
    if cut.is_empty():
        return ()
    told = [
        f"{count:,} of {count_of(episodes, 'episode')} of {policy}"
        + (", which never ended one by itself" if count == episodes else "")
        for policy, count, episodes in cut.iter_rows()
    ]
    text = (
        f"a step limit cut off {_some(told)}. The scores of such an episode are of the moment of "
        "the cut: what was left undone then can be missing in them."
    )
    numbers = {"cut": float(cut["cut"].sum()), "episodes": float(cut["episodes"].sum())}
    return (Caveat(CUT_OFF, text, numbers),)


def _some(texts: list[str]) -> str:
    """Return the first texts as a list in words, and how many there are more."""
    more = [f"{len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*texts[:_NAMED], *more])
