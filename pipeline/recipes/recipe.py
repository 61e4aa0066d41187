"""Recipes: strict TOML that says everything a dataset, an agent and a report are made from.

    id = "binpack-synthetic-v1"            # the folder's name under datasets/
    scenario = "binpack"
    objective = "makespan"
    level = "mixed"                        # how well its behaviours do, see LEVELS
    seed = 1                               # every random draw descends from it
    description = "one sentence"

    [config]                               # the scenario's settings, see its Config class
    [trace]                                # format = "synthetic" with its own settings, or
                                           # format + path below $HINDCAST_TRACES
    [split]                                # windows by split: "0..179", inclusive
    [[behaviours]]                         # policy, epsilon, temperature, episodes (per window);
                                           # a policy is a rule, or the path of a checkpoint
    behaviours_from = "RUN/checkpoints"    # in their place: all checkpoints of a training
    [train]                                # agents, steps, seeds, settings of `hindcast run`
    [evaluate]                             # policies, references, seeds, metrics
    [online]                               # agent, iterations, seeds, settings of `train-online`

Keys that do not exist are refused, with the nearest one that does. The digest covers every value,
defaults included, in canonical form: two recipes with one digest make the same bytes.
"""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pipeline.errors import RecipeError, did_you_mean
from pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT
from pipeline.storage.files import sha256_text

Level: TypeAlias = Literal["", "random", "heuristic", "mixed", "medium", "replay"]

# What a dataset of a level is a log of; a recipe without a level says so in its description.
LEVELS: Final[Mapping[str, str]] = {
    "random": "uniform choices among the feasible candidates",
    "heuristic": "the strongest rules of the scenario, with some uniform choices",
    "mixed": "random, random linear rules, and rules from weak to strong",
    "medium": "an online agent that is partly trained",
    "replay": "the checkpoints of an online agent, from its first choices to its last",
}


@dataclass(frozen=True)
class TraceSource:
    """Where the workload is from.

    format    a name of pipeline.traces.FORMATS, or "synthetic"
    path      below the folder named by $HINDCAST_TRACES, or absolute; empty for "synthetic"
    settings  of the synthetic generator
    """

    format: str
    path: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BehaviourRecipe:
    """A behaviour policy: `episodes` episodes on every window of the dataset's splits.

    policy   a rule; or a checkpoint, "policies/NAME" once it is found
             (pipeline.recipes.checkpoints)
    sha256   of the checkpoint's description, which has that of its weights; "" for a rule
    """

    policy: str
    epsilon: float = 0.0
    temperature: float = 0.0
    episodes: int = 1
    sha256: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)

    @property
    def name(self) -> str:
        """Unique within a recipe: the policy and how it explores."""
        shown = self.policy.removeprefix("policies/")
        shown += f"+eps{self.epsilon:g}" if self.epsilon else ""
        return shown + (f"+temp{self.temperature:g}" if self.temperature else "")


_STEPS: Final = "steps"


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@dataclass(frozen=True)
class TrainRecipe:
    """What `hindcast run` trains: every agent with every seed.

    agents     names; "all" alone is every agent that is for the scenario
    steps      of each agent
    settings   of agents, by agent: [train.settings.cql] with the names that --set takes, and
               `steps` where an agent needs others than the rest
    """

    agents: tuple[str, ...] = ()
    steps: int = 2000
    seeds: tuple[int, ...] = (0,)
    settings: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, metadata=LEFT_OUT_WHEN_DEFAULT
    )

    def settings_of(self, agent: str) -> dict[str, Any]:
        """Its settings by dotted names, as `network.hidden`, however the tables were nested."""
        own = dict(_dotted(self.settings.get(agent, {})))
        own.pop(_STEPS, None)
        return own

    def steps_of(self, agent: str) -> int:
        """How many steps it is trained for; RecipeError where that is no whole number above 0."""
        steps = self.settings.get(agent, {}).get(_STEPS, self.steps)
        if not isinstance(steps, int) or steps < 1:
            raise RecipeError(
                f"train.settings.{agent}: steps is {steps!r}, expected a whole number above 0"
            )
        return steps


@dataclass(frozen=True)
class EvaluateRecipe:
    """What stands in the tables: policies, and the references that others are paired with.

    seeds   episodes per window of a policy that draws; others are run once
    metrics outcomes that stand in results.csv beside the headline
    """

    policies: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    seeds: int = 5
    metrics: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHEN_DEFAULT)


@dataclass(frozen=True)
class OnlineRecipe:
    """What `hindcast train-online` trains: an agent that plays the train windows.

    seeds            of `hindcast run`, which trains one agent with each
    imitate_steps    in `hindcast run`: how long its dataset is imitated first; 0: not at all
    """

    agent: str = ""
    iterations: int = 1000
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = field(default=(0,), metadata=LEFT_OUT_WHEN_DEFAULT)
    imitate_steps: int = field(default=0, metadata=LEFT_OUT_WHEN_DEFAULT)


@dataclass(frozen=True)
class Recipe:
    """Everything that a run depends on; see the module.

    places   where the checkpoints among the behaviours are; no part of what the recipe says
    """

    id: str
    scenario: str
    config: Any
    objective: str
    trace: TraceSource
    split: Mapping[str, range]
    seed: int
    behaviours: tuple[BehaviourRecipe, ...] = ()
    train: TrainRecipe = field(default_factory=TrainRecipe)
    evaluate: EvaluateRecipe = EvaluateRecipe()
    online: OnlineRecipe = field(default_factory=OnlineRecipe, metadata=LEFT_OUT_WHEN_DEFAULT)
    description: str = ""
    level: Level = ""
    dataset_splits: tuple[str, ...] = ("train", "validation")
    places: Mapping[str, Path] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, defaults included unless a field says otherwise."""
        value: dict[str, Any] = _plain(dataclasses.replace(self, places={}))
        del value["places"]
        value["split"] = {name: f"{r.start}..{r.stop - 1}" for name, r in self.split.items()}
        return value

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of all values."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return sha256_text(text)

    def windows(self, split: str) -> list[int]:
        """Windows of a split; "all" is every split in order of its windows."""
        if split == "all":
            return sorted({w for r in self.split.values() for w in r})
        if split not in self.split:
            raise RecipeError(
                f"recipe {self.id} has no split {split!r}; "
                f"{did_you_mean(split, [*self.split, 'all'])}"
            )
        return list(self.split[split])


def _plain(value: Any) -> Any:
    """Return settings as a table, without fields LEFT_OUT_WHEN_DEFAULT that have their default."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not dataclasses.is_dataclass(value):
        return copy.deepcopy(value)
    table = {}
    for each in dataclasses.fields(value):
        of, made = getattr(value, each.name), each.default_factory
        default = each.default if made is dataclasses.MISSING else made()
        if each.metadata != LEFT_OUT_WHEN_DEFAULT or of != default:
            table[each.name] = _plain(of)
    return table
