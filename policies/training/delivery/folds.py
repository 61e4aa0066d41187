"""The gate that trains again: an agent is judged on windows that its training has not seen.

    train and validation windows      W1 ........ | W2 ........ | W3 ........ | W4 ........
    agent trained on the others       plays W1      plays W2      plays W3      plays W4
    best rule                         plays all of them

A trace has a number of windows, and a split for validation has few of them: too few to show a small
advantage. Here, every train window serves for the comparison too, at the price of FOLDS further
trainings. The agent that is delivered is the one that was trained on all of them.

A fold is a stretch of the train windows and one of the validation windows, so that neighbours in
time stay together, and every training has validation windows to choose its best checkpoint with.
Each fold has at most MOST_PLAYED windows that are played, evenly spaced.

Windows of a trace may share jobs. A training leaves out its fold and all windows that share a job
with a window of the fold. The windows of a fold that are played share no job.

Source of the method: Stone, "Cross-validatory choice and assessment of statistical predictions",
Journal of the Royal Statistical Society B 36, 1974.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from hindcast.pipeline.recipes.splits import evenly_spaced
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.training.delivery.played import (
    Windows,
    best_rule,
    headline_value,
    values_of,
)
from hindcast.policies.training.delivery.verdict import Verdict, best_judged, compare

FOLDS: Final = 4
MOST_PLAYED: Final = 100  # windows of a fold
# Function of a fold's number and its windows that returns the policies of a training without these
# windows, by kind of checkpoint.
Without = Callable[[int, Sequence[int]], Mapping[str, LearnedPolicy]]


def folds_of(windows: Windows) -> list[list[int]]:
    """Return the windows of each fold; none if there are fewer windows than folds."""
    parts = [
        np.array_split(np.array(windows.in_order(split), np.int64), FOLDS)
        for split in (windows.train, windows.validation)
    ]
    found = [
        [int(w) for w in [*train, *validation]] for train, validation in zip(*parts, strict=True)
    ]
    return found if all(found) else []


def decide(
    windows: Windows, names: Sequence[str], without: Without, candidates: Mapping[str, Trained]
) -> tuple[Trained, Verdict] | None:
    """Return the checkpoint with the largest difference from the best rule, and its verdict.

    None without rules, or with fewer windows than folds. See `verdicts`.
    """
    found = verdicts(windows, names, without)
    kinds = [kind for kind in candidates if kind in found]
    return best_judged([(candidates[kind], found[kind]) for kind in kinds])


def verdicts(windows: Windows, names: Sequence[str], without: Without) -> dict[str, Verdict]:
    """Return the comparison with the best of the rules `names`, by kind of checkpoint.

    A kind that one of the trainings does not have is left out. There are none without rules, with
    fewer windows than folds, or if a training would have no train window left.
    """
    folds = folds_of(windows)
    if not names or not folds:
        return {}
    headline = windows.spec.outcomes[0]
    value = partial(headline_value, better=headline.better)
    rule = best_rule(windows, names, value)
    left_out = [windows.touched(fold) for fold in folds]
    if any(set(windows.train) <= set(touched) for touched in left_out):
        return {}
    apart = [windows.apart(fold) for fold in folds]
    shown = [evenly_spaced(some, MOST_PLAYED) for some in apart]
    agents = [without(number, touched) for number, touched in enumerate(left_out)]
    of_rule = np.concatenate(
        [values_of(windows, rankable(windows.scenario.name)[rule], some, value) for some in shown]
    )
    found = {}
    for kind in [kind for kind in agents[0] if all(kind in policies for policies in agents)]:
        of_agent = np.concatenate(
            [
                values_of(windows, policies[kind], some, value)
                for policies, some in zip(agents, shown, strict=True)
            ]
        )
        found[kind] = compare(of_agent, of_rule, rule, headline.name, seed=windows.seed)
    return found
