"""Filtered cloning: behaviour cloning of the best episodes of every window.

    kept = of the E episodes of a window the ceil(share * E) with the highest return
    loss = - mean over decisions of kept episodes of log pi(choice)

Episodes are compared inside their window only, since windows differ in how much there is to gain.
If each window has one episode, they are compared over all windows. Source: the "BC of the best x %"
baseline of Chen, Lu, Rajeswaran et al., "Decision Transformer", NeurIPS 2021, and of Chen, Zhou,
Wang et al., "BAIL: Best-Action Imitation Learning for Batch Deep Reinforcement Learning", NeurIPS
2020.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.settings.ranges import number
from hindcast.policies.offline.cloning import behaviour_cloning
from hindcast.policies.training.learner import Learner, Task
from hindcast.policies.training.returns import windows_of


@dataclass(frozen=True)
class Config(behaviour_cloning.Config):
    """Settings of filtered cloning, in addition to those of behaviour cloning.

    Attributes:
        share: Share of a window's episodes to imitate, above 0, at most 1; at least one episode is
            imitated.
    """

    share: float = number(0.2, "above 0, at most 1")


def best_episodes(decisions: Decisions, share: float) -> NDArray[np.bool_]:
    """Return a mask (E,) of the episodes to keep; among equal ones the first."""
    returns = decisions.episodes["return"].to_numpy().astype(np.float64)
    is_best = np.zeros(len(returns), np.bool_)
    has_decisions = np.bincount(decisions.episode, minlength=len(returns)) > 0
    window = windows_of(decisions)
    for w in np.unique(window):
        of_window = np.flatnonzero((window == w) & has_decisions)
        best = of_window[np.argsort(-returns[of_window], kind="stable")]
        is_best[best[: int(np.ceil(share * len(best)))]] = True
    return is_best


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""

    def filtered(d: Decisions) -> Decisions:
        return d.take(np.flatnonzero(best_episodes(d, config.share)[d.episode]))

    validation = task.validation
    held_out = filtered(validation) if validation is not None and len(validation) else None
    best = replace(task, decisions=filtered(task.decisions), validation=held_out)
    return behaviour_cloning.learner(best, config)
