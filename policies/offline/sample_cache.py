"""The decisions that agents of one seed learn from: drawn once, and kept for the next agent.

Reading a whole log takes longer than most trainings. Agents with the same seed and the same needs
(columns, candidates, decisions per episode) get the same decisions, which also pairs their results.
The latest sample of each split is kept in memory, one at a time.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns, Decisions, FurtherColumns
from hindcast.pipeline.dataset.reward_sums import Discount
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.decisions import NAME as DECISIONS
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.limits import own_spec
from hindcast.policies.networks.rules import find_rules
from hindcast.policies.offline import Agent

_HELD: Final[
    dict[str, tuple[Any, Decisions]]
] = {}  # by split: the key of the latest sample, and the sample


def sample(
    opened: ds.Dataset, agent: Agent, config: Any, seed: int, split: str, memory: int
) -> Decisions:
    """Return the decisions of a split for this agent and seed, in at most `memory` bytes.

    A setting `per_episode` takes the place of the agent's number of decisions per episode.
    The decisions are shared between agents and must not be changed. Raises DatasetError as
    `sample_decisions` does.
    """
    images = getattr(getattr(config, "network", None), "image", 0) > 0
    further = columns_of_rules(opened, config)
    more = ("probabilities",) if agent.probabilities else ()
    columns = Columns(agent.candidates, agent.transitions, images, more, further)
    discount = _discount(opened, config)
    wanted: dict[str, Any] = {
        "per_episode": getattr(config, "per_episode", agent.per_episode),
        "limit": max(1, memory // columns.bytes(opened.spec)),
        "discount": discount,
    }
    # The digest separates an extended log from the old one, the folder separates copies.
    log = str(opened.folder), opened.manifest.episodes.sha256, opened.left_out
    key = (*log, seed, wanted, replace(columns, further=None), rules_of(config))
    held = _HELD.get(split)
    if held is not None and held[0] == key:
        return held[1]
    del held
    _HELD.pop(split, None)  # before reading the next sample: memory holds one
    rng = generator(seed, f"sample {split}")
    decisions = sample_decisions(opened, split, rng, columns, **wanted)
    if opened.spec.scenario == DECISIONS:
        _learnable(decisions, agent, str(opened.folder))
    _HELD[split] = (key, decisions)
    return decisions


def _learnable(decisions: Decisions, agent: Agent, where: str) -> None:
    """Write 0 for missing numbers of a log of decisions, in place; `x_missing` stands beside.

    Raises DatasetError if the agent reads probabilities that were not logged.
    """
    spread = decisions.probabilities
    if spread is not None and np.isnan(spread[decisions.mask]).any():
        lacking = int(np.isnan(np.where(decisions.mask, spread, 0.0)).any(axis=1).sum())
        raise DatasetError(
            f"{agent.name} reads the probabilities of all candidates, and {where} lacks them in "
            f"{lacking:,} of {len(decisions):,} decisions; expected an agent that does not, such "
            "as cql"
        )
    for name in ("context", "candidates", "next_context", "next_candidates"):
        values = getattr(decisions, name)
        if values is not None:
            np.nan_to_num(values, copy=False)


def rules_of(config: Any) -> tuple[str, ...]:
    """Return the rules whose columns an agent with this Config reads."""
    return getattr(getattr(config, "network", None), "rules", ())


def columns_of_rules(opened: ds.Dataset, config: Any) -> FurtherColumns | None:
    """Return the columns of the rules that an agent with this Config reads; None without rules.

    A manifest may state any spec, but rules are compiled for the features of the scenario, and
    their ranges are those under the recipe's settings. Raises RecipeError as
    `hindcast.policies.networks.rules.find_rules` does, and DatasetError if the manifest has other
    features.
    """
    if not rules_of(config):
        return None
    where = str(opened.folder)
    own = own_spec(opened.recipe, opened.spec, where)
    return find_rules(own.scenario, rules_of(config), own.candidates, own.context).further(where)


def _discount(opened: ds.Dataset, config: Any) -> Discount | None:
    """Return how this agent discounts returns; None if it does not."""
    if not hasattr(config, "discount_per"):
        return None
    discount = opened.spec.discount if config.discount is None else config.discount
    return Discount(discount, config.discount_per == "second")
