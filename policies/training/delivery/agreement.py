"""The gate on a log alone: a test of the agent against the best logged rule.

    rule        of the deterministic rules in the log, the one with the best mean of the headline
                outcome on windows that all of them played
    episodes    validation episodes of the best behaviours, which hold about a third of them; at
                least two behaviours
    agreement   of pairs of these episodes on the same window, the share in which the mean
                log-probability of the logged choices is higher for the episode with the better
                outcome; a pair counts by the difference of its outcomes, every window alike
    verdict     the agent is delivered if the 95 % intervals of its agreement less that of the rule
                and less one half, that of a coin, are above 0

Probabilities are softmax(scores / T), for each scorer with the temperature
of its highest agreement. Only the best behaviours are compared: that an agent tells good behaviours
from bad ones says little, since every rule worth delivering does that.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.episodes import Trajectory
from hindcast.pipeline.simulation.policy import readings
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import own_spec
from hindcast.policies.training.delivery.verdict import (
    AGENT,
    RULE,
    Verdict,
    compare,
    eligible_rules,
    rule_policy,
)
from hindcast.policies.training.returns import best_behaviours, of_behaviours

SHARE: Final = 0.3  # of the validation episodes, held by the best behaviours
TEMPERATURES: Final = tuple(np.geomspace(0.03, 3.0, 9).tolist())
COIN: Final = 0.5  # its agreement

Floats = NDArray[np.float64]


def judge(dataset: Dataset, policy: LearnedPolicy, seed: int) -> Verdict | None:
    """Return the verdict on an agent; None without a rule in the log or comparable episodes."""
    rule = best_logged_rule(dataset)
    if rule is None or not (dataset.episodes()["split"] == "validation").any():
        return None
    episodes = _valued(dataset, dataset.episodes("validation"))
    # Episodes of a single behaviour differ by its exploration alone.
    most = max(len(best_behaviours(episodes, SHARE)), 2)
    names = best_behaviours(episodes, 1.0)[:most]
    kept = set(episodes["episode"].to_numpy()[of_behaviours(episodes, names)])
    # with the ranges of the simulator, whatever the manifest states
    of_rule = rule_policy(own_spec(dataset.recipe, dataset.spec, str(dataset.folder)), rule)
    likely = {AGENT: list[Floats](), RULE: list[Floats]()}
    value = dict(episodes.select("episode", "return").iter_rows())
    window, values = list[int](), list[float]()
    for trajectory in dataset.iter_episodes("validation"):
        if trajectory.about["episode"] not in kept or not len(trajectory):
            continue
        window.append(trajectory.about["window"])
        values.append(value[trajectory.about["episode"]])
        for name, one in ((AGENT, policy), (RULE, of_rule)):
            likely[name].append(log_likelihood(one, trajectory, TEMPERATURES))
    shares = {
        name: agreements(np.array(window), np.array(values), np.array(of_episode))
        for name, of_episode in likely.items()
    }
    if shares[RULE].shape[1] == 0:
        return None
    of_agent, of_the_rule = (one[one.mean(axis=1).argmax()] for one in shares.values())
    return compare(of_agent, of_the_rule, rule, "agreement", seed=seed, at_least=COIN)


def best_logged_rule(dataset: Dataset) -> str | None:
    """Return the best deterministic rule of the log; None if the log has no such rule.

    Rules are compared by their mean headline outcome on the windows that all of them played, or on
    all windows if there are none. Test episodes are left out.
    """
    rule_of = logged_rules(dataset)
    episodes = _valued(dataset, dataset.episodes()).filter(
        pl.col("behaviour").is_in(list(rule_of)) & (pl.col("split") != "test")
    )
    if episodes.is_empty():
        return None
    played = pl.col("behaviour").n_unique().over("window")
    shared = episodes.filter(played == episodes["behaviour"].n_unique())
    means = (
        (episodes if shared.is_empty() else shared)
        .group_by("behaviour", "window").agg(pl.col("return").mean())
        .group_by("behaviour").agg(pl.col("return").mean())
        .sort("return", "behaviour", descending=[True, False])
    )  # fmt: skip
    return rule_of[means["behaviour"][0]]


def logged_rules(dataset: Dataset) -> dict[str, str]:
    """Return the deterministic rules of a log, by the name of their behaviour."""
    known = eligible_rules(dataset.spec)
    return {b.name: b.policy for b in dataset.recipe.behaviours if b.policy in known}


def _valued(dataset: Dataset, episodes: pl.DataFrame) -> pl.DataFrame:
    """Return episodes with the headline outcome in place of the return, higher is better.

    The headline outcome is what evaluations compare. A return may weigh several costs otherwise.
    """
    headline = dataset.spec.outcomes[0]
    value = pl.col(headline.name)
    return episodes.with_columns((value if headline.better == "higher" else -value).alias("return"))


def log_likelihood(
    policy: LearnedPolicy, trajectory: Trajectory, temperatures: Iterable[float]
) -> Floats:
    """Return the mean log-probability of an episode's choices at each temperature, (T,).

    Decisions with a single feasible candidate are left out; the result is 0 without others.
    """
    t = trajectory
    count, end = len(t), int(t.offsets[len(t)])
    feasible, offsets = t.feasible[:end], t.offsets[: count + 1]
    given: dict[str, Any] = {
        "feasible": feasible,
        "image": None if t.image is None else t.image[:count],
    }
    scores = policy.batch_scores(
        t.context[:count].astype(np.float64), t.candidates[:end].astype(np.float64), offsets,
        **{name: given[name] for name in readings(policy)},
    )  # fmt: skip
    decision = np.repeat(np.arange(count), np.diff(offsets))[feasible]
    able = np.bincount(decision, minlength=count)
    starts = np.concatenate([[0], np.cumsum(able)])[:-1]
    own, chosen = scores[feasible], scores[offsets[:-1] + t.choice]
    highest = np.maximum.reduceat(own, starts)
    several = able > 1
    found = []
    for temperature in temperatures:
        total = np.add.reduceat(np.exp((own - highest[decision]) / temperature), starts)
        log_p = (chosen - highest) / temperature - np.log(total)
        found.append(log_p[several].mean() if several.any() else 0.0)
    return np.array(found)


def agreements(window: NDArray[np.integer], values: Floats, likely: Floats) -> Floats:
    """Return the agreement at each temperature on each window, (T, W).

    window (E,), values (E,) and likely (E, T) are of episodes. Windows in which all values are
    equal are left out. An equal likelihood counts one half.
    """
    found = []
    for one in np.unique(window):
        members = np.flatnonzero(window == one)
        weight, sided = 0.0, np.zeros(likely.shape[1])
        for i, j in combinations(members, 2):
            gap = values[i] - values[j]
            side = np.sign(likely[i] - likely[j]) * np.sign(gap)
            sided += abs(gap) * (1.0 + side) / 2.0
            weight += abs(gap)
        if weight > 0.0:
            found.append(sided / weight)
    return np.array(found).T if found else np.empty((likely.shape[1], 0))
