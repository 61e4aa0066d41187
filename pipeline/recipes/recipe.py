"""Recipes: strict TOML with all settings of a dataset, its agents and its report.

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
                                           # a policy is a rule, the path of a checkpoint, or
                                           # code of your own: path/to/file.py:name
    behaviours_from = "RUN/checkpoints"    # in their place: all checkpoints of a training
    [train]                                # agents, steps, seeds, settings of `hindcast run`
    [evaluate]                             # policies, references, seeds, metrics
    [online]                               # agent, iterations, seeds, settings of `train-online`
    [online.guard]                         # episodes on which the selected agent must keep up

Unknown keys are refused, and the error names the nearest known key. The digest covers every value,
defaults included, in canonical form: two recipes with one digest make the same bytes. An override
that changes the digest marks the id with the digest's first digits, `binpack-synthetic-v1+3f9a1c`,
unless it also gives an id. The mark follows from the digest and is not covered by it.
"""

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from hindcast.pipeline.errors import RecipeError, did_you_mean
from hindcast.pipeline.settings.ranges import SEED, check_field, number, ranged, shown
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT, ONE_PER_WINDOW
from hindcast.pipeline.storage.files import sha256_text

Level: TypeAlias = Literal["", "random", "heuristic", "mixed", "medium", "replay", "recorded"]

# Behaviours of a dataset by level; a recipe without a level describes them in its description.
NO_FILE: Final = ("synthetic", "generated", "history")  # formats of [trace] that read no file
LEVELS: Final[Mapping[str, str]] = {
    "random": "uniform choices among the feasible candidates",
    "heuristic": "the strongest rules of the scenario, with some uniform choices",
    "mixed": "random, random linear rules, and rules from weak to strong",
    "medium": "an online agent that is partly trained",
    "replay": "the checkpoints of an online agent, from its first choices to its last",
    "recorded": "the scheduler of the log, whose propensities are not known",
}


@dataclass(frozen=True)
class TraceSource:
    """Source of the workload: the section [trace] of a recipe.

    Attributes:
        format: A name of hindcast.pipeline.traces.FORMATS, "synthetic", "generated" (the scenario
            draws every instance), or "workload" (a folder written by `hindcast ingest`).
        path: Path below the folder of the recipe's file, else below the folder named by
            $HINDCAST_TRACES; or an absolute path or URL. Empty for "synthetic" and "generated".
        settings: Settings of the synthetic generator, see SyntheticConfig; or of the format's
            reader, such as JobLogSettings.
    """

    format: str
    path: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def refuse_file(trace: TraceSource, given: str, where: str) -> None:
    """Raise RecipeError if the source reads no file. `given` names the file and its option."""
    if trace.format in NO_FILE:
        raise RecipeError(
            f"{where}: trace.format is {trace.format!r}, which reads no file, but {given}; leave "
            "it out, or name a recipe of a trace"
        )


@dataclass(frozen=True)
class BehaviourRecipe:
    """A behaviour policy: an entry of [[behaviours]] in a recipe.

    Attributes:
        policy: Name of a rule; or path or URL of a checkpoint, which becomes "policies/NAME" once
            it is found; or reference to a policy of the user's own, which becomes "FILE:NAME"
            (hindcast.pipeline.recipes.checkpoints).
        epsilon: Probability of a uniform choice among the feasible candidates, 0 to 1.
        temperature: Temperature of the softmax over scores, at least 0; 0 chooses the best score.
        episodes: Number of episodes on every window of the dataset's splits, at least 1.
        sha256: SHA-256 of the checkpoint's description, which has that of its weights, or of the
            source file of an own policy; "" for a rule.
    """

    policy: str
    epsilon: float = number(0.0, "from 0 to 1")
    temperature: float = number(0.0, "at least 0")
    episodes: int = number(1, "from 1 to 100,000")
    sha256: str = field(default="", metadata=LEFT_OUT_WHEN_DEFAULT)

    @property
    def is_checkpoint(self) -> bool:
        """True if the policy is a checkpoint."""
        return bool(self.sha256) and "/" in self.policy

    @property
    def name(self) -> str:
        """Name within the recipe, which is unique: the policy and its exploration."""
        name = self.policy.removeprefix("policies/")
        name += f"+eps{self.epsilon:g}" if self.epsilon else ""
        return name + (f"+temp{self.temperature:g}" if self.temperature else "")


# Fields of a Recipe that are no keys of its file.
OF_THIS_MACHINE: Final = ("places", "code", "origin", "base")
_STEPS: Final = "steps"
_MARKED: Final = re.compile(r"(?P<base>.+)\+(?P<mark>[0-9a-f]{6})", re.DOTALL)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@dataclass(frozen=True)
class TrainRecipe:
    """Training of agents by `hindcast run`: the section [train] of a recipe.

    Every agent is trained with every seed.

    Attributes:
        agents: Names of offline agents; "all" alone means every agent for the scenario.
        steps: Gradient steps of each agent, at least 1.
        seeds: Seeds of the trainings.
        settings: Settings by agent, [train.settings.cql], with the names that --set takes, and
            `steps` for an agent that needs another number.
    """

    agents: tuple[str, ...] = ()
    steps: int = number(2000, "from 1 to 1,000,000,000")
    seeds: tuple[int, ...] = number((0,), SEED)
    settings: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, metadata=LEFT_OUT_WHEN_DEFAULT
    )

    def settings_of(self, agent: str) -> dict[str, Any]:
        """Return an agent's settings by dotted names such as `network.hidden`."""
        settings = dict(_dotted(self.settings.get(agent, {})))
        settings.pop(_STEPS, None)
        return settings

    def steps_of(self, agent: str) -> int:
        """Return an agent's number of steps; raise RecipeError if it is out of range."""
        steps = self.settings.get(agent, {}).get(_STEPS, self.steps)
        where = f"train.settings.{agent}: steps"
        if type(steps) is not int:
            raise RecipeError(f"{where} is {shown(steps)}, expected a whole number")
        check_field({f.name: f for f in dataclasses.fields(self)}[_STEPS], steps, where)
        return steps


@dataclass(frozen=True)
class EvaluateRecipe:
    """Tables of an evaluation: the section [evaluate] of a recipe.

    Attributes:
        policies: Policies that are evaluated. The references of the scenario, such as
            aged_expected_easy of queue, are evaluated too.
        references: Policies with which the others are compared, window by window, beside those of
            the scenario.
        seeds: Episodes per window of a policy that draws, at least 1; other policies have one.
        metrics: Outcomes in results.csv besides the headline.
    """

    policies: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    seeds: int = number(5, "from 1 to 100,000")
    metrics: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHEN_DEFAULT)


@dataclass(frozen=True)
class GuardRecipe:
    """Episodes on which a selected checkpoint must keep up with rules: the section [online.guard].

    The scenario is that of the recipe, with some settings replaced, such as one long window in
    place of short ones.

    Attributes:
        references: Rules. The best of them by the mean return over the guard's windows is the one
            to keep up with; empty for no guard.
        config: Values that replace those of [config].
        windows: Windows to play, counted under these settings.
        tolerance: Share of the best rule's return by which a checkpoint may be worse, at least 0.
        limits: Outcomes of which lower is better, such as max_wait_s, each with a factor of at
            least 0. A checkpoint's mean may be this many times the smallest of the rules' means.
    """

    references: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    windows: tuple[int, ...] = number((0,), "from 0 to 1,000,000,000")
    tolerance: float = number(0.0, "at least 0")
    limits: Mapping[str, float] = field(
        default_factory=dict, metadata={**LEFT_OUT_WHEN_DEFAULT, **ranged("at least 0")}
    )


@dataclass(frozen=True)
class OnlineRecipe:
    """Training by `hindcast train-online`: the section [online] of a recipe.

    Attributes:
        agent: Name of the online agent, which plays the train windows.
        iterations: Iterations of the training, at least 1.
        settings: Settings of the agent, by the names that --set takes.
        seeds: Seeds of the trainings in `hindcast run`, one agent each.
        imitate_steps: Steps of imitating the recipe's dataset before the training, in `hindcast
            run`; at least 0, and 0 does not imitate.
        guard: Episodes on which the selected checkpoint must keep up with rules.
    """

    agent: str = ""
    iterations: int = number(1000, "from 1 to 1,000,000,000")
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = number((0,), SEED, metadata=LEFT_OUT_WHEN_DEFAULT)
    imitate_steps: int = number(0, "from 0 to 1,000,000,000", metadata=LEFT_OUT_WHEN_DEFAULT)
    guard: GuardRecipe = field(default_factory=GuardRecipe, metadata=LEFT_OUT_WHEN_DEFAULT)


@dataclass(frozen=True)
class Origin:
    """The dataset whose manifest a recipe was read from; it may be somebody else's.

    Paths that lead out of the dataset are not used: neither a trace nor a policy to evaluate.

    Attributes:
        folder: Folder of the dataset.
        workload_sha256: SHA-256 of the manifest of its workload.
        trace: Source of the workload by the manifest. The copy in the dataset is read instead.
        evaluate: Policies to evaluate by the manifest. Paths among them are refused.
        made_of_others: Whether the dataset was made of others, so that the recipe does not build
            it.
    """

    folder: Path
    workload_sha256: str
    trace: TraceSource
    evaluate: EvaluateRecipe
    made_of_others: bool = False


@dataclass(frozen=True)
class Recipe:
    """All settings that a run depends on; see the module.

    Attributes:
        id: Name of the recipe, with its mark if it was changed by an override.
        scenario: Name of the scenario.
        config: Settings of the scenario, see its Config class.
        objective: Objective whose reward is recorded; by default the first of the scenario.
        trace: Source of the workload.
        split: Windows by split; in TOML "first..last", both included.
        seed: Seed of every random draw; 0 by default.
        behaviours: Behaviour policies of the dataset.
        train: Training of offline agents.
        evaluate: Tables of an evaluation.
        online: Training of an online agent.
        description: One sentence for the card.
        level: How well the behaviours do, a key of LEVELS, or "".
        dataset_splits: Splits in the dataset; by default train and validation.
        places: Folders of the checkpoints among the behaviours; not a key of a recipe file, and not
            in the digest.
        code: References to own policies among the behaviours, with absolute paths. Empty for a
            recipe from a manifest. Not a key of a recipe file, and not in the digest.
        origin: The dataset whose manifest the recipe came from; None for a recipe file. Not a key
            of a recipe file, and not in the digest.
        base: Folder of the recipe's file, in which relative paths are searched first; None for a
            recipe from a manifest. Not a key of a recipe file, and not in the digest.
    """

    id: str
    scenario: str
    config: Any
    objective: str
    trace: TraceSource
    split: Mapping[str, range]
    seed: int = field(metadata=ranged(SEED))
    behaviours: tuple[BehaviourRecipe, ...] = ()
    train: TrainRecipe = field(default_factory=TrainRecipe)
    evaluate: EvaluateRecipe = EvaluateRecipe()
    online: OnlineRecipe = field(default_factory=OnlineRecipe, metadata=LEFT_OUT_WHEN_DEFAULT)
    description: str = ""
    level: Level = ""
    dataset_splits: tuple[str, ...] = ("train", "validation")
    places: Mapping[str, Path] = field(default_factory=dict, compare=False, repr=False)
    code: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)
    base: Path | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, defaults included unless a field says otherwise.

        The id has no mark: it is the id of the recipe that was changed.
        """
        value: dict[str, Any] = _plain(
            dataclasses.replace(self, places={}, code={}, origin=None, base=None)
        )
        for key in OF_THIS_MACHINE:
            del value[key]
        value["split"] = {name: f"{r.start}..{r.stop - 1}" for name, r in self.split.items()}
        if match := _MARKED.fullmatch(self.id):
            unmarked = {**value, "id": match["base"]}
            if _digest(unmarked).startswith(match["mark"]):
                return unmarked
        return value

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of all values."""
        return _digest(self.to_dict())

    def marked(self) -> "Recipe":
        """Return the recipe with the first digits of its digest in its id, `ID+3f9a1c`."""
        table = self.to_dict()
        return dataclasses.replace(self, id=f"{table['id']}+{_digest(table)[:6]}")

    def under(self, written: object) -> "Recipe":
        """Return the recipe with its mark if `written`, an id in a manifest, has that mark."""
        marked = self.marked()
        return marked if written == marked.id else self

    def windows(self, split: str) -> list[int]:
        """Return the windows of a split; "all" means every split, in order of the windows.

        Windows beyond a list of windows in the settings (ONE_PER_WINDOW) do not exist and are left
        out. Raises RecipeError if the split is unknown, or if nothing of it is left.
        """
        if split == "all":
            windows = sorted({w for r in self.split.values() for w in r})
        elif split in self.split:
            windows = list(self.split[split])
        else:
            raise RecipeError(
                f"the recipe {self.id} has no split {split!r}; "
                f"{did_you_mean(split, [*self.split, 'all'])}"
            )
        for name, count in _listed_windows(self.config):
            if windows[0] >= count:
                raise RecipeError(
                    f"{self.id}: config.{name} lists {count} windows, but split {split} begins "
                    f"with window {windows[0]}; make the list longer or the split earlier"
                )
            windows = [window for window in windows if window < count]
        return windows


def digest_of_dataset(recipes: Sequence[Recipe], *lineage: Any) -> str:
    """Return the digest of a dataset: that of its recipe if there is one and no lineage.

    Else it is the SHA-256 over the digests of all recipes, and over that of `lineage`: how the
    dataset was made of others, as JSON.
    """
    digests = [recipe.digest for recipe in recipes]
    digests += [sha256_text(json.dumps(of, sort_keys=True)) for of in lineage]
    return digests[0] if len(digests) == 1 else sha256_text("\n".join(digests))


def _listed_windows(config: Any) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of every list of windows in the settings of a scenario."""
    for setting in fields(config):
        if setting.metadata.items() >= ONE_PER_WINDOW.items() and getattr(config, setting.name):
            yield setting.name, len(getattr(config, setting.name))


def _digest(table: Mapping[str, Any]) -> str:
    return sha256_text(json.dumps(table, sort_keys=True, separators=(",", ":")))


def _plain(value: Any) -> Any:
    """Return settings as a table, without fields LEFT_OUT_WHEN_DEFAULT that have their default."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not dataclasses.is_dataclass(value):
        return copy.deepcopy(value)
    table = {}
    for entry in dataclasses.fields(value):
        setting, factory = getattr(value, entry.name), entry.default_factory
        default = entry.default if factory is dataclasses.MISSING else factory()
        if not entry.metadata.items() >= LEFT_OUT_WHEN_DEFAULT.items() or setting != default:
            table[entry.name] = _plain(setting)
    return table
