"""Logs of decisions made elsewhere, as a scenario without a simulator.

Such a log has contexts, candidates, choices, propensities and rewards, and nothing that says what
another choice would have led to. So its datasets have a spec, and no episode can be played: what
asks for an instance is told so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT, Instance, Scenario
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.pipeline.workloads.schema import Workload

NAME: Final = "decisions"
REWARD: Final = "reward"
IDENTIFIER: Final = "identifier"  # a number that names something: rules see it, learners do not
LEVEL: Final = "level"  # 1 for one level of a category, else 0
NO_SIMULATOR: Final = (
    "these decisions were made elsewhere, and no simulator says what another choice would have led "
    "to: no episode can be played; `hindcast ope DATASET --policy ...` says what the log can answer"
)
_INFINITE: Final = float("inf")


@dataclass(frozen=True)
class DecisionsConfig:
    """Names of what a log holds.

    Attributes:
        context: Kind of each feature of a decision: "number", IDENTIFIER or LEVEL.
        candidates: Kind of each feature of a candidate.
        reward_terms: Names of the logged rewards and costs.
        scales: Typical magnitude of numbers, by their names; 1 for others.
        closing_rows: Whether single decisions have a closing row, as all did in version 1.
    """

    context: Mapping[str, Any] = field(default_factory=dict)
    candidates: Mapping[str, Any] = field(default_factory=dict)
    reward_terms: tuple[str, ...] = ()
    scales: Mapping[str, Any] = field(default_factory=dict)
    closing_rows: bool = field(default=True, metadata=LEFT_OUT_WHEN_DEFAULT)


def _features(kinds: Mapping[str, Any], scales: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the features of a log from their kinds and scales by name."""
    found = []
    for name, kind in kinds.items():
        bounds = (0.0, 1.0) if kind == LEVEL else (-_INFINITE, _INFINITE)
        text = {
            LEVEL: "whether the category has this level",
            IDENTIFIER: "code of a name, in the order of appearance",
        }.get(kind, "as logged")
        found.append(
            Feature(
                name, "1", *bounds, text,
                identifier=kind == IDENTIFIER, scale=float(scales.get(name, 1.0)),
            )
        )  # fmt: skip
    return tuple(found)


def spec(config: DecisionsConfig, objective: str) -> Spec:
    """Return the names of a log: its features, its rewards and the outcome of an episode."""
    return Spec(
        scenario=NAME,
        objective=objective,
        context=_features(config.context, config.scales),
        candidates=_features(config.candidates, config.scales),
        reward_terms=config.reward_terms,
        outcomes=(Outcome("reward_sum", "1", "sum of the rewards of the session", "higher"),),
        closing_rows=config.closing_rows,
    )


def _refuse_instance(
    _config: DecisionsConfig, _objective: str, _workload: Workload, _window: int,
    _rng: np.random.Generator,
) -> Instance:  # fmt: skip
    raise InputError(NO_SIMULATOR)


def _refuse(*_arguments: Any) -> NoReturn:
    raise InputError(NO_SIMULATOR)


SCENARIO: Final = Scenario(
    name=NAME,
    config=DecisionsConfig,
    objectives=(REWARD,),
    spec=spec,
    windows=_refuse,
    instance=_refuse_instance,
    observe=_refuse,
    step=_refuse,
    outcome=_refuse,
)
