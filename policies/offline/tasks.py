"""Decisions of a dataset for training: they are drawn once, and kept for the next agent.

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
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.scenarios.decisions import NAME as DECISIONS
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.rules import COLUMNS_PER_RULE, find_rules, own_spec
from hindcast.policies.offline import Agent
from hindcast.policies.training.episode_stream import Logs, log_of_dataset
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.learner import Task

MEMORY: Final = 512 << 20  # bytes of decisions: half a million of the real packing workload

_HELD: Final[
    dict[str, tuple[Any, Decisions]]
] = {}  # by split: the key of the latest sample, and the sample


def task_of(opened: ds.Dataset, agent: Agent, identity: Identity) -> Task:
    """Read what a training learns from, or several trainings with equal needs.

    Raises DatasetError or InputError if the agent cannot learn from it.
    """
    config, seed, validation, logs = identity.config, identity.seed, None, None
    further = columns_of_rules(opened, config)
    decisions = sample(opened, agent, config, seed, "train", MEMORY, further)
    task = Task(decisions, opened.spec, identity.steps, seed, device=identity.device)
    check(agent, config, task)
    held_out = (opened.episodes()["split"] == "validation").any()
    if held_out:
        validation = sample(opened, agent, config, seed, "validation", MEMORY // 10, further)
    if agent.whole:
        splits = ("train", "validation") if held_out else ("train",)
        logs = Logs(*(log_of_dataset(opened, split, further) for split in splits))
    return replace(task, validation=validation, logs=logs)


def sample(
    opened: ds.Dataset,
    agent: Agent,
    config: Any,
    seed: int,
    split: str,
    memory: int,
    further: FurtherColumns | None,
) -> Decisions:
    """Return the decisions of a split for this agent and seed, in at most `memory` bytes.

    `further` are the columns of the rules that the Config names, as `columns_of_rules` has them. A
    setting `per_episode` takes the place of the agent's number of decisions per episode.
    The decisions are shared between agents and must not be changed. Raises DatasetError as
    `sample_decisions` does.
    """
    images = getattr(getattr(config, "network", None), "image", 0) > 0
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


def check(agent: Agent, config: Any, task: Task) -> None:
    """Raise DatasetError or InputError if the agent cannot learn from the decisions of a task."""
    decisions, spec = task.decisions, task.spec
    if task.steps < 1:
        raise InputError(f"steps is {task.steps}, expected at least 1")
    if agent.scenarios and spec.scenario not in agent.scenarios:
        raise InputError(
            f"{agent.name} is for {' and '.join(agent.scenarios)}, these decisions are of "
            f"{spec.scenario}"
        )
    if len(decisions) == 0:
        raise DatasetError(f"{agent.name}: there are no decisions to learn from")
    if agent.transitions and decisions.next_mask is None:
        raise DatasetError(f"{agent.name} needs what followed each decision; load with transitions")
    rules = rules_of(config)
    shape = (decisions.context.shape[1], decisions.candidates.shape[2])
    expected = (len(spec.context), len(spec.candidates) + COLUMNS_PER_RULE * len(rules))
    if shape != expected:
        raise DatasetError(
            f"{agent.name}: decisions have {shape[0]} context and {shape[1]} candidate features, "
            f"the scenario has {expected[0]} and {len(spec.candidates)}"
            + f", and {len(rules)} rules have {COLUMNS_PER_RULE} columns each"
            * bool(rules)
        )
