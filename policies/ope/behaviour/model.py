"""Fit a behaviour model on early choices, test it on late ones, and describe it in words.

    first 60 %    fitted
    next 10 %     left out, so that the queue of the fitted choices is gone
    last 30 %     tested: log-likelihood per choice and how often the likeliest candidate was chosen

Simple rules are tested on the same choices.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.instances import Log
from hindcast.pipeline.storage.extras import installed
from hindcast.policies.ope.behaviour.choice_sets import ChoiceSets, choices_of_log
from hindcast.policies.ope.behaviour.logit import Logit, fit_logit, log_probabilities

Array = NDArray[np.float64]

FITTED, TESTED = 12_000, 5_000  # starts of a log at most, evenly spaced
_FIT, _TEST = 0.6, 0.7  # shares of the choices before which fitting ends, and testing begins
_LEAST: Final = 20  # choices to test

_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "log_waited": ("prefers jobs that have waited long", "prefers jobs that have waited briefly"),
    "log_requested": ("prefers long requests", "prefers short requests"),
    "log_processors": ("prefers wide jobs", "prefers narrow jobs"),
    "log_predicted": ("prefers users whose runs were long", "prefers users whose runs were short"),
    "log_age": ("holds jobs that have just come", "prefers jobs that have just come"),
    "log_slowdown": ("prefers jobs that have waited long for what they request",
                     "holds jobs that have waited long for what they request"),
    "oldest": ("prefers the oldest job", "holds the oldest job"),
    "newest": ("prefers the newest job", "holds the newest job"),
    "age_rank": ("prefers jobs late in the queue", "prefers jobs early in the queue"),
    "request_rank": ("prefers the longer of the requests", "prefers the shorter of the requests"),
    "shortest": ("prefers the shortest request", "holds the shortest request"),
    "requested_day_sin": ("longer requests in the first half of the day",
                          "longer requests in the second half of the day"),
    "requested_day_cos": ("longer requests around midnight of the log's clock",
                          "longer requests around noon of the log's clock"),
    "user_running": ("prefers users who run much", "holds users who run much"),
    "user_waiting": ("prefers users with many waiting jobs", "holds users with many waiting jobs"),
    "safe": ("prefers jobs that EASY would start", "prefers jobs that delay the oldest one"),
    "share_of_free": ("fills the free processors", "leaves free processors"),
    "first_of_user": ("serves each user in order", "serves the later jobs of a user first"),
    "new": ("prefers jobs of the last minute", "holds jobs of the last minute"),
    "same_shape": ("starts equal jobs in a row", "changes between kinds of jobs"),
    "same_user": ("starts jobs of one user in a row", "changes between users"),
    "log_since_user": ("prefers users who have not started a job for long",
                       "prefers users who have just started a job"),
}  # fmt: skip
_RULES: Final[Mapping[str, Callable[[ChoiceSets], Array]]] = {
    "oldest": lambda sets: -sets.column("age_rank"),
    "newest": lambda sets: sets.column("age_rank"),
    "sjf": lambda sets: -sets.column("log_requested"),
    "saf": lambda sets: -sets.column("log_requested") - sets.column("log_processors"),
}


@dataclass(frozen=True)
class Score:
    """Quality of the predictions of held-out choices by a model or a rule.

    Attributes:
        name: "logit", "network", or the name of a rule.
        top_1: Share of the choices whose likeliest candidate was chosen, the oldest of equal ones.
        log_likelihood: Mean log-probability of the chosen candidate; None for a rule, which has no
            probabilities.
    """

    name: str
    top_1: float
    log_likelihood: float | None


@dataclass(frozen=True)
class BehaviourModel:
    """A fitted behaviour model and its test.

    Attributes:
        logit: The conditional logit.
        scores: Its test, and that of the rules and, where torch is installed, the network.
        fitted: Number of choices that it was fitted on.
        tested: Number of choices that it was tested on.
        candidates: Mean number of candidates of a tested choice.
        clusters: "day" or "episode": choices of one are not taken as independent.
    """

    logit: Logit
    scores: tuple[Score, ...]
    fitted: int
    tested: int
    candidates: float
    clusters: str

    def score(self, name: str) -> Score:
        """Return the score of this name."""
        return next(score for score in self.scores if score.name == name)


def model_of_log(log: Log, seed: int = 0) -> BehaviourModel:
    """Fit and test a behaviour model on the starts of a log.

    Starts are evenly spaced if there are many. Raises InputError for a log without starts, or with
    too few choices.
    """
    size = len(log.submit)
    early = np.linspace(0, _FIT * size, min(FITTED, int(_FIT * size)), endpoint=False)
    late = np.linspace(_TEST * size, size, min(TESTED, size - int(_TEST * size)), endpoint=False)
    fitted, tested = np.unique(early.astype(np.int64)), np.unique(late.astype(np.int64))
    sets = choices_of_log(log, np.unique(np.concatenate([fitted, tested])))
    stop = int(np.searchsorted(sets.place, int(_FIT * size)))
    return _model(sets, stop, int(np.searchsorted(sets.place, int(_TEST * size))), "day", seed)


def model_of_choices(sets: ChoiceSets, seed: int = 0) -> BehaviourModel:
    """Fit and test a behaviour model on choice sets of a dataset, which are in order of time."""
    return _model(sets, int(_FIT * len(sets)), int(_TEST * len(sets)), "episode", seed)


def _model(sets: ChoiceSets, stop: int, start: int, clusters: str, seed: int) -> BehaviourModel:
    if len(sets) - start < _LEAST:
        raise InputError(
            f"{len(sets):,} choices with two or more candidates are too few for a behaviour model, "
            f"of which the last {1 - _TEST:.0%} are tested; give a longer log"
        )
    train, test = sets.part(0, stop), sets.part(start, len(sets))
    logit = fit_logit(train)
    equal = 1.0 / np.diff(test.offsets)
    scores = [
        _score("logit", logit.utilities(test), test, likely=True),
        *_network(train, test, seed),
        Score("uniform", float(equal.mean()), float(np.log(equal).mean())),
        *(
            _score(name, rule(test), test, likely=False)
            for name, rule in _RULES.items()
            if "age_rank" in test.names
        ),
    ]
    candidates = len(test.rows) / len(test)
    return BehaviourModel(logit, tuple(scores), len(train), len(test), candidates, clusters)


def _network(train: ChoiceSets, test: ChoiceSets, seed: int) -> Iterator[Score]:
    """Yield the test of the network if torch is installed."""
    if installed("torch"):
        from hindcast.policies.ope.behaviour.network import network_utilities

        yield _score("network", network_utilities(train, test, seed), test, likely=True)


def _score(name: str, utilities: Array, sets: ChoiceSets, *, likely: bool) -> Score:
    first, sizes = sets.offsets[:-1], np.diff(sets.offsets)
    best = utilities == np.repeat(np.maximum.reduceat(utilities, first), sizes)
    places = np.where(best, np.arange(len(best)), len(best))
    hits = np.minimum.reduceat(places, first) == sets.chosen
    mean_log = log_probabilities(utilities, sets)[sets.chosen].mean() if likely else None
    return Score(name, float(hits.mean()), None if mean_log is None else float(mean_log))


def in_words(logit: Logit) -> Iterator[tuple[str, float, float | None, float | None, str]]:
    """Yield feature, coefficient, its interval, and words; the strongest first.

    A coefficient is the change of the log-odds for one standard deviation of the feature, all other
    features being equal. The words are "no clear sign" where the interval contains 0, or
    where there is none: its ends are None then.
    """
    for f in np.argsort(-np.abs(logit.weights), kind="stable"):
        name, weight = logit.names[f], float(logit.weights[f])
        low, high = float(logit.low[f]), float(logit.high[f])
        words = "no clear sign"
        if low > 0.0 or high < 0.0:
            queue = name.removeprefix("queue_")
            pair = _WORDS.get(name, (f"prefers a high {name}", f"prefers a low {name}"))
            if queue != name:
                pair = (f"prefers queue {queue}", f"holds queue {queue}")
            words = pair[0 if weight > 0.0 else 1]
        ends = (None, None) if np.isnan(low) else (low, high)
        yield name, weight, *ends, words
