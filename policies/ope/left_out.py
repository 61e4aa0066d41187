"""Coverage of estimators, measured on the log's own behaviours: each is left out once.

    log          episodes of behaviours a, b, c, ... on the same windows
    left out     b: the episodes of the others are the log, weighed by the mixture of the others
    estimate     return of b and its difference to the log, with intervals, as of any other policy
    own return   mean return of b's episodes on these windows

A behaviour counts if the estimate has an interval, and is held if both intervals hold what b
earned. The interval of the value alone would say little: windows differ more than policies do, and
b is estimated on the windows that it played. A behaviour that draws parameters for every episode,
or that did not play every window, is not left out. The own return has an error too, so fewer are
held than would be with the expected return.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.estimators import ESTIMATORS, Estimate, LoggedEpisodes
from hindcast.pipeline.estimators.verdicts import BESIDE, CANNOT, Held, holds
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.policies.ope.episodes import WholeEpisodes


def can_be_left_out(log: WholeEpisodes, of_log: Mapping[str, Behaviour]) -> dict[str, Behaviour]:
    """Return the behaviours of a log that can be left out, by name."""
    windows = log.table["window"].n_unique()
    found = {}
    for (name,), own in log.table.group_by("behaviour", maintain_order=True):
        behaviour = of_log.get(str(name))
        everywhere = own["window"].n_unique() == windows and len(own) < len(log)
        if behaviour is not None and everywhere and not _draws(behaviour):
            found[str(name)] = behaviour
    return found


def _draws(behaviour: Behaviour) -> bool:
    return isinstance(behaviour.policy, Heuristic) and behaviour.policy.draw is not None


def own_return(episodes: LoggedEpisodes, own: NDArray[np.bool_]) -> float:
    """Return the mean return of some episodes (E,), windows weighted as in the others."""
    units, count = episodes.units, len(episodes.sizes)
    sums = np.bincount(units[own], episodes.returns[own], count)
    means = sums / np.bincount(units[own], minlength=count)
    return float(np.average(means, weights=np.bincount(units[~own], minlength=count)))


def held_of(made: Iterable[tuple[Estimate, float, float]]) -> Held:
    """Return how often the intervals of an estimator held, of estimate, own return, difference."""
    found = [
        holds(*e.bootstrap, value) and holds(*e.difference_bootstrap, difference)
        for e, value, difference in made
        if e.verdict != CANNOT and np.isfinite(e.bootstrap).all()
    ]
    return Held(len(found), sum(found))


def verdict_of(e: Estimate, held: Held) -> str:
    """Return the verdict on an estimate: a bias makes it BESIDE unless coverage was shown."""
    if e.verdict != CANNOT and (held.refuted or (ESTIMATORS[e.name].bias and not held.shown)):
        return BESIDE
    return e.verdict
