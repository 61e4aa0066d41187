"""The mapping of a log of decisions: a TOML file that says what its columns mean.

    kind = "decisions"
    file = "router.jsonl"            # or a list
    shape = "nested"                 # a name of SHAPES

    [columns]                        # what is read -> a column, or a dotted path in nested records
    decision = "id"
    chosen = "selected_model"        # position in the list, id of a candidate, or a flag per row
    propensity = "propensity"        # of the taken candidate
    reward = "quality"

    [context]
    numbers = ["request.tokens"]

    [candidates]
    list = "candidate_models"
    numbers = {price = "price"}      # a map by the names of candidates

    [propensity]
    kind = "monte_carlo"
    draws = "exploration.n_samples"

An unknown key is refused with the nearest one, a key of the wrong kind with what was expected.
"""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from hindcast.pipeline.errors import RecipeError, TraceError, did_you_mean
from hindcast.pipeline.settings.ranges import shown

KIND: Final = "decisions"
SHAPES: Final = ("rows", "nested", "wide", "dsjson", "cb_adf", "obp", "obd")
SELF_DESCRIBING: Final = ("dsjson", "cb_adf", "obp", "obd")
LEFT_OUT: Final = "left out"

Names = dict[str, str]  # name of a feature -> the column, map or pattern that holds it
PropensityKind = Literal["exact", "monte_carlo", "estimated", "none"]
KINDS: Final = ("exact", "monte_carlo", "estimated", "none")


def _signed(reward: Mapping[str, float], cost: Mapping[str, float]) -> dict[str, float]:
    return {**reward, **{name: -factor for name, factor in cost.items()}}


@dataclass(frozen=True)
class Columns:
    """Columns of a log, or dotted paths in nested records; "" for what the log does not have.

    Attributes:
        decision: Id of the decision.
        session: Id of the session; without one, every decision is one of its own.
        unit: Id of what is drawn anew in intervals and is never split, such as a user.
        slot: Name of the slot of a decision.
        time: Time of the decision.
        candidate: Id of the candidate, in rows.
        chosen: Position in the list, id of a candidate, or a flag per candidate.
        feasible: Flag per candidate.
        sampled: Candidate that was drawn, where another one may have been served.
        overridden: Flag of a decision whose served candidate is not the drawn one.
        propensity: Probability of the taken candidate.
        probability: Probability of every candidate, in rows and wide tables.
        probabilities: Probabilities of all candidates, in nested records.
        reward: The reward, or several with their factors.
        cost: The cost, or several with their factors.
        keep: Probability that the record was kept.
        drop: Probability that the record was dropped.
        logger: Name of the policy that decided, such as a version.
    """

    decision: str = ""
    session: str = ""
    unit: str = ""
    slot: str = ""
    time: str = ""
    candidate: str = ""
    chosen: str = ""
    feasible: str = ""
    sampled: str = ""
    overridden: str = ""
    propensity: str = ""
    probability: str = ""
    probabilities: str = ""
    reward: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    keep: str = ""
    drop: str = ""
    logger: str = ""

    @property
    def terms(self) -> dict[str, float]:
        """Columns of the reward with their factors; those of costs are negative."""
        return _signed(self.reward, self.cost)


@dataclass(frozen=True)
class Context:
    """Columns that describe a decision, by the names of their features."""

    numbers: Names = field(default_factory=dict)
    categories: Names = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates:
    """Columns that describe the candidates, by the names of their features.

    Attributes:
        list: Path of the list of candidates, in nested records.
        id: Field of a listed object that names the candidate.
        feasible: Field, map, list or pattern of flags.
        numbers: Features that are numbers.
        categories: Features that are categories.
    """

    list: str = ""
    id: str = ""
    feasible: str = ""
    numbers: Names = field(default_factory=dict)
    categories: Names = field(default_factory=dict)


@dataclass(frozen=True)
class Propensities:
    """Origin of the probabilities of the log.

    Attributes:
        kind: A name of KINDS.
        draws: Number of draws of Monte-Carlo propensities, or the column that holds it.
        epsilon: Share of uniform exploration, if it is known; else 0.
    """

    kind: PropensityKind = "exact"
    draws: str | int = ""
    epsilon: float = 0.0


@dataclass(frozen=True)
class Outcomes:
    """A second file, whose rewards belong to decisions by their ids.

    Attributes:
        file: The file, relative to the folder of the mapping.
        decision: Column of the decision's id.
        reward: The reward, or several with their factors.
        cost: The cost, or several with their factors.
        time: Time of the outcome; "" if it is not known.
        several: Value of a decision with several outcomes that differ; "" if none counts.
    """

    file: str = ""
    decision: str = ""
    reward: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    time: str = ""
    several: Literal["", "last", "sum", "mean"] = ""

    @property
    def terms(self) -> dict[str, float]:
        """Columns of the reward with their factors; those of costs are negative."""
        return _signed(self.reward, self.cost)


@dataclass(frozen=True)
class Split:
    """Shares of the validation and the test split, by time or by a hash of the unit."""

    by: Literal["time", "hash"] = "hash"
    validation: float = 0.2
    test: float = 0.2


@dataclass(frozen=True)
class DecisionMapping:
    """Meaning of the columns of a log of decisions.

    Attributes:
        files: The files of the log, in order.
        shape: A name of SHAPES.
        separator: Character between the fields of a text table.
        time_zone: Zone of times without an offset from UTC.
        sessions_end: True if the last decision of a session ends it.
        missing_reward: Reward of a decision without one; None leaves such decisions out.
        columns: Columns of the decision.
        context: Features of the decision.
        candidates: Features of the candidates.
        propensity: Origin of the probabilities.
        outcomes: A second file with rewards, or None.
        split: Shares of the splits.
    """

    files: tuple[str, ...] = ()
    shape: str = "rows"
    separator: str = ""
    time_zone: str = "UTC"
    sessions_end: bool = False
    missing_reward: float | None = None
    columns: Columns = Columns()
    context: Context = Context()
    candidates: Candidates = Candidates()
    propensity: Propensities = Propensities()
    outcomes: Outcomes | None = None
    split: Split = Split()

    @property
    def digest(self) -> str:
        """SHA-256 of the mapping's content, whatever its comments and the order of its keys."""
        text = json.dumps(self.as_table(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_table(self) -> dict[str, Any]:
        """Return the mapping as a table that `parse_mapping` reads."""
        table: dict[str, Any] = {"kind": KIND, "file": list(self.files), "shape": self.shape}
        for name in ("separator", "time_zone", "sessions_end"):
            if getattr(self, name) != getattr(DecisionMapping(), name):
                table[name] = getattr(self, name)
        if self.missing_reward is not None:
            table["missing"] = {"reward": self.missing_reward}
        for name in ("columns", "context", "candidates", "propensity", "outcomes", "split"):
            part = getattr(self, name)
            if part is not None:
                table[name] = {
                    k: v for k, v in dataclasses.asdict(part).items() if v not in ("", {})
                }
        return table


_TOP: Final = (
    "kind", "file", "shape", "separator", "time_zone", "sessions_end", "missing", "outcomes",
    "split", "columns", "context", "candidates", "propensity",
)  # fmt: skip
_CHOICES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("propensity", "kind"): KINDS,
    ("outcomes", "several"): ("last", "sum", "mean"),
    ("split", "by"): ("time", "hash"),
}
_SHARES: Final = frozenset({("split", "validation"), ("split", "test"), ("propensity", "epsilon")})


def load_mapping(path: Path) -> DecisionMapping:
    """Return the mapping in a TOML file; raise TraceError if it cannot be read."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: this is no TOML: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_mapping(table, str(path))


def parse_mapping(table: Mapping[str, Any], where: str) -> DecisionMapping:
    """Return the mapping of a parsed table; raise RecipeError, which begins with `where`."""
    _known(table, _TOP, where)
    if table.get("kind", KIND) != KIND:
        raise RecipeError(f"{where}: kind is {shown(table['kind'])}, expected {KIND!r}")
    shape = table.get("shape", "rows")
    if shape not in SHAPES:
        raise RecipeError(f"{where}: shape is {shown(shape)}, {did_you_mean(str(shape), SHAPES)}")
    files = table.get("file", [])
    files = [files] if isinstance(files, str) else files
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise RecipeError(f"{where}: file is {shown(files)}, expected a file or a list of files")
    missing = _part(table, "missing", where)
    _known(missing, ("reward",), f"{where}: [missing]")
    mapping = DecisionMapping(
        files=tuple(files),
        shape=shape,
        separator=_text(table.get("separator", ""), f"{where}: separator"),
        time_zone=_text(table.get("time_zone", "UTC"), f"{where}: time_zone"),
        sessions_end=_flag(table.get("sessions_end", False), f"{where}: sessions_end"),
        missing_reward=_missing(missing.get("reward", LEFT_OUT), f"{where}: missing.reward"),
        columns=_filled(Columns, table, "columns", where),
        context=_filled(Context, table, "context", where),
        candidates=_filled(Candidates, table, "candidates", where),
        propensity=_filled(Propensities, table, "propensity", where),
        outcomes=_filled(Outcomes, table, "outcomes", where) if "outcomes" in table else None,
        split=_filled(Split, table, "split", where),
    )
    _check_whole(mapping, where)
    columns = mapping.columns
    stated = columns.propensity or columns.probability or columns.probabilities
    if stated or shape in SELF_DESCRIBING or mapping.propensity.kind == "none":
        return mapping
    if "kind" in _part(table, "propensity", where):
        raise RecipeError(
            f"{where}: propensity.kind is {mapping.propensity.kind!r}, but no column holds "
            'propensities; expected columns.propensity or columns.probability, or kind = "none"'
        )
    return dataclasses.replace(mapping, propensity=Propensities("none"))


def _check_whole(mapping: DecisionMapping, where: str) -> None:
    """Raise RecipeError for keys of a mapping that contradict each other or lack a partner."""
    columns, split = mapping.columns, mapping.split
    if columns.keep and columns.drop:
        raise RecipeError(f"{where}: columns.keep and columns.drop are both given, expected one")
    if split.validation + split.test >= 1.0:
        raise RecipeError(
            f"{where}: split.validation and split.test add to {split.validation + split.test:g}, "
            "expected less than 1: the rest is the train split"
        )
    if mapping.outcomes is not None:
        for name in ("file", "decision"):
            if not getattr(mapping.outcomes, name):
                raise RecipeError(f"{where}: outcomes.{name} is missing, expected a name")
        if not mapping.outcomes.terms:
            raise RecipeError(f"{where}: outcomes.reward is missing, expected a column")
        if not columns.decision and mapping.shape != "dsjson":
            raise RecipeError(
                f"{where}: outcomes are joined by id, expected columns.decision in the mapping"
            )
    if mapping.shape in SELF_DESCRIBING:
        return
    if not columns.chosen:
        raise RecipeError(
            f"{where}: columns.chosen is missing: no column says which candidate was taken"
        )
    if mapping.shape == "rows" and not columns.decision:
        raise RecipeError(
            f"{where}: columns.decision is missing, expected the id of the rows of a decision"
        )
    if mapping.shape == "nested" and not mapping.candidates.list:
        raise RecipeError(f"{where}: candidates.list is missing, expected the list of candidates")


def _filled(kind: type[Any], table: Mapping[str, Any], name: str, where: str) -> Any:
    """Return the settings `kind` of the part `name` of a mapping."""
    part = _part(table, name, where)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    _known(part, fields, f"{where}: [{name}]")
    values = {key: _value(fields[key], value, (name, key), where) for key, value in part.items()}
    return kind(**values)


def _value(known: "dataclasses.Field[Any]", value: Any, key: tuple[str, str], where: str) -> Any:
    """Return the checked value of a key (section, name) of a field; raise RecipeError."""
    place = f"{where}: {'.'.join(key)}"
    if key in _CHOICES:
        options = _CHOICES[key]
        if value not in options:
            raise RecipeError(f"{place} is {shown(value)}, {did_you_mean(str(value), options)}")
        return value
    if key in _SHARES:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise RecipeError(f"{place} is {shown(value)}, expected a number from 0 to below 1")
        return float(value)
    if known.name in ("reward", "cost"):
        return _factors(value, place)
    if known.name in ("numbers", "categories"):
        return _names(value, place)
    if known.name == "draws" and isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise RecipeError(f"{place} is {value}, expected a number of draws of at least 1")
        return value
    return _text(value, place)


def _factors(value: Any, place: str) -> dict[str, float]:
    if isinstance(value, str):
        return {value: 1.0}
    if isinstance(value, Mapping) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in value.values()
    ):
        return {str(k): float(v) for k, v in value.items()}
    raise RecipeError(f"{place} is {shown(value)}, expected a column or {{column = factor, ...}}")


def _names(value: Any, place: str) -> Names:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {v: v for v in value}
    if isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values()):
        return {str(k): v for k, v in value.items()}
    raise RecipeError(f"{place} is {shown(value)}, expected a list of columns or {{name = column}}")


def _missing(value: Any, place: str) -> float | None:
    if value == LEFT_OUT:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise RecipeError(f"{place} is {shown(value)}, expected {LEFT_OUT!r} or a number")


def _part(table: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    part = table.get(name, {})
    if not isinstance(part, Mapping):
        raise RecipeError(f"{where}: {name} is {shown(part)}, expected a table [{name}]")
    return part


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise RecipeError(f"{place} is {shown(value)}, expected a text")
    return value


def _flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise RecipeError(f"{place} is {shown(value)}, expected true or false")
    return value


def _known(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    options = list(keys)
    for key in table:
        if key not in options:
            raise RecipeError(f"{where}: unknown key {key!r}; {did_you_mean(key, options)}")
