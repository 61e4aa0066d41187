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

import dataclasses
import json
import os
import sys
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pipeline.errors import RecipeError, did_you_mean
from pipeline.location import location
from pipeline.scenario import load_scenario
from pipeline.splits import read_split
from pipeline.storage import sha256_text

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

    policy   a rule; or a checkpoint, "policies/NAME" once it is found (pipeline.pinned)
    sha256   of the checkpoint's description, which has that of its weights; "" for a rule
    """

    policy: str
    epsilon: float = 0.0
    temperature: float = 0.0
    episodes: int = 1
    sha256: str = ""

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
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

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
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class OnlineRecipe:
    """What `hindcast train-online` trains: an agent that plays the train windows.

    seeds            of `hindcast run`, which trains one agent with each
    imitate_steps    in `hindcast run`: how long its dataset is imitated first; 0: not at all
    """

    agent: str = ""
    iterations: int = 1000
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    imitate_steps: int = 0


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
    online: OnlineRecipe = field(default_factory=OnlineRecipe)
    description: str = ""
    level: Level = ""
    dataset_splits: tuple[str, ...] = ("train", "validation")
    places: Mapping[str, Path] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, defaults included."""
        value = dataclasses.asdict(dataclasses.replace(self, places={}))
        del value["places"]
        value["split"] = {name: f"{r.start}..{r.stop - 1}" for name, r in self.split.items()}
        if not self.train.settings:
            del value["train"]["settings"]  # as below
        if self.online == OnlineRecipe():
            del value["online"]  # so that recipes from before there was one keep their digests
        else:
            _leave_out(value["online"], {"seeds": (0,), "imitate_steps": 0})
        _leave_out(value["evaluate"], {"metrics": ()})
        _leave_out(value["config"], {"foresight": False})  # of slots
        for behaviour in value["behaviours"]:
            _leave_out(behaviour, {"sha256": ""})
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


def _leave_out(table: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Take keys with these values away: recipes from before there were such keys had none."""
    for key, value in defaults.items():
        if table.get(key) == value:
            del table[key]


def recipe_folder() -> Path:
    """The folder of recipes: beside the packages in a checkout, else the installed share/."""
    beside = Path(__file__).resolve().parent.parent / "datasets"
    return beside if beside.is_dir() else Path(sys.prefix) / "share" / "hindcast" / "datasets"


def known_recipes() -> list[str]:
    """Ids of the recipes that come with Hindcast."""
    return sorted(p.parent.name for p in recipe_folder().glob("*/recipe.toml"))


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe by path or id and apply `section.key=value` overrides (values are TOML).

    The folder of a dataset is a recipe too: the one that builds it again. Checkpoints among the
    behaviours are looked for below the recipe's folder, then below the working one. Raises
    RecipeError that names the file and the key, or the checkpoint that is missing or changed.
    """
    from pipeline.pinned import built_from

    path = location(name)
    if path.is_dir():
        if (table := built_from(path)) is not None:
            for override in overrides:
                _override(table, override)
            return _found(table, path, str(path))
        path = path / "recipe.toml"
    if not path.is_file():
        path = recipe_folder() / str(name) / "recipe.toml"
    if not path.is_file():
        raise RecipeError(
            f"no recipe {str(name)!r}: neither a file nor one of the recipes that come with "
            f"Hindcast; {did_you_mean(str(name), known_recipes())}"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML ({error})") from error
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror})") from error
    for override in overrides:
        _override(table, override)
    return _found(table, path.parent, str(path))


def _found(table: Mapping[str, Any], base: Path, where: str) -> Recipe:
    """The recipe of a table, with its checkpoints found."""
    from pipeline.pinned import pinned

    found, places = pinned(table, base, where)
    return dataclasses.replace(parse_recipe(found, where), places=places)


def _override(table: dict[str, Any], override: str) -> None:
    """Set one `section.key=value`; a value that is not TOML is taken as a string."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set {override!r}: expected section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, last = key.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise RecipeError(f"--set {override!r}: {section!r} is not a table")
    table[last] = value


def parse_recipe(table: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from parsed TOML; `where` is the file named in errors."""
    from pipeline.pinned import check_behaviour

    table = dict(table)
    if "places" in table:
        raise RecipeError(f"{where}: unknown key 'places'")
    for key in ("id", "scenario", "trace", "split"):
        if key not in table:
            raise RecipeError(f"{where}: key {key!r} is missing")
    if not isinstance(table["scenario"], str):
        raise RecipeError(f"{where}: scenario is {table['scenario']!r}, expected a string")
    scenario = load_scenario(table["scenario"])
    table.setdefault("objective", scenario.objectives[0])
    table.setdefault("seed", 0)
    if table["objective"] not in scenario.objectives:
        raise RecipeError(
            f"{where}: objective is {table['objective']!r}; "
            f"{did_you_mean(str(table['objective']), scenario.objectives)}"
        )
    table["config"] = read_settings(scenario.config, table.get("config", {}), f"{where}: config")
    table["split"] = read_split(table["split"], where)
    recorded = [name for name in ("train", "validation") if name in table["split"]]
    table.setdefault("dataset_splits", recorded)
    recipe = read_settings(Recipe, table, where)
    assert isinstance(recipe, Recipe)
    if unknown := set(recipe.dataset_splits) - set(recipe.split):
        raise RecipeError(f"{where}: dataset_splits names {sorted(unknown)}, not in [split]")
    for behaviour in recipe.behaviours:
        check_behaviour(behaviour.policy, behaviour.sha256, where)
    names = [b.name for b in recipe.behaviours]
    if len(set(names)) < len(names):
        raise RecipeError(f"{where}: two behaviours are the same: {names}")
    return recipe


def read_settings(settings: type[Any], value: Any, where: str) -> Any:
    """A frozen dataclass from a table: unknown keys refused, types checked, ints made floats.

    Raises RecipeError that names the key and what was expected.
    """
    if dataclasses.is_dataclass(settings) and isinstance(value, settings):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where}: is {value!r}, expected a table")
    hints = get_type_hints(settings)
    names = [f.name for f in dataclasses.fields(settings)]
    for key in value:
        if key not in names:
            raise RecipeError(f"{where}: unknown key {key!r}; {did_you_mean(str(key), names)}")
    required = [
        f.name
        for f in dataclasses.fields(settings)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing := [name for name in required if name not in value]:
        raise RecipeError(f"{where}: key {missing[0]!r} is missing")
    return settings(**{k: _typed(hints[k], v, f"{where}: {k}") for k, v in value.items()})


def _typed(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotation says, or a RecipeError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (origin is Mapping and where.endswith(": split")):
        return value
    if dataclasses.is_dataclass(hint):
        return read_settings(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} is {value!r}, expected a list")
        return tuple(_typed(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(
                f"{where} is {value!r}; {did_you_mean(str(value), map(str, arguments))}"
            )
        return value
    if origin in {Union, types.UnionType}:
        return None if value is None else _typed(arguments[0], value, where)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {value!r}, expected a table")
        return {k: _typed(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise RecipeError(f"{where} is {value!r}, expected {_KINDS.get(hint, hint.__name__)}")
    return value


_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
}


def traces_folder() -> Path:
    """The folder of raw traces: $HINDCAST_TRACES, else shared/traces beside the checkout."""
    given = os.environ.get("HINDCAST_TRACES")
    if given:
        return location(given)
    return Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
