"""Rule columns: what named rules say of each candidate, as inputs of a network.

    choice   1 if the candidate is the rule's choice, else 0
    rank     share of the other feasible candidates with a strictly lower score of the rule; 1 for
             the only feasible candidate

Every rule fills these two columns. Both are 0 for an infeasible candidate. Candidates with equal
scores share a rank, so the first candidate of the highest rank is the rule's choice: a network
with weight 1 on a rank and 0 elsewhere plays the rule.

A rule may read all candidates of an observation, infeasible ones included. The columns are
therefore computed before candidates are cut to a number or left out. They need no simulator: on
logged observations they are computed while the log is read, if its values are within the ranges of
the features (hindcast.policies.networks.limits).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import NDArray

from hindcast.pipeline.dataset.decisions import FurtherColumns
from hindcast.pipeline.errors import DatasetError, RecipeError, UnknownName, did_you_mean
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.functions import SCORE_CELL
from hindcast.pipeline.simulation.kernel import (
    FLOATS,
    SCORE,
    Compiled,
    Floats,
    Ints,
    Mask,
    Rows,
    compiled,
)
from hindcast.pipeline.simulation.masks import feasible_rows
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.limits import Limits, limits_of
from hindcast.policies.networks.rule_digests import current, digest_of

_RULE: Final = types.FunctionType(SCORE)
RULES: Final = SCORE_CELL  # a list of rules
RuleList: TypeAlias = Annotated[Any, RULES]
COLUMNS_PER_RULE: Final = 2
CHOICE: Final = 0  # the first column of a rule
RANK: Final = 1
_FEW: Final = 128  # up to this number of candidates, comparing all pairs is faster than sorting
_ONE: Final = np.uint64(1)
SIZED: Final = frozenset({"multicluster", "slots"})  # settings decide the size of the context


@dataclass(frozen=True, eq=False)
class RuleColumns:
    """The rules whose columns a network reads.

    Attributes:
        names: Names of the rules, in the order of their columns.
        digests: Digest of what each rule does, see hindcast.policies.networks.rule_digests.
        functions: The compiled rules.
        context: Limits of the context; None if its features are not known.
        candidates: Limits of the candidates without rule columns; None if their features are not
            known.
        moment: Number of context features that the rules read; None if any number is right.
    """

    names: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    functions: tuple[Compiled, ...] = ()
    context: Limits | None = None
    candidates: Limits | None = None
    moment: int | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def scores(self) -> Any:
        """The compiled rules as a list that compiled loops take (type RULES)."""
        return _rule_list(self.functions)

    @property
    def width(self) -> int:
        """Number of rule columns."""
        return COLUMNS_PER_RULE * len(self.names)

    def further(self, where: str = "log") -> FurtherColumns | None:
        """Return the columns as a log is read; None without rules. `where` is the log in errors."""
        if not self.names:
            return None
        return FurtherColumns(self.width, partial(rule_columns, self, where=where))

    def widened(self, candidates: Sequence[Feature]) -> tuple[Feature, ...]:
        """Return the features of the candidates with those of the rule columns at the end."""
        return (*candidates, *(one for name in self.names for one in _features(name)))

    def require(self, digests: Mapping[str, Any], where: str) -> None:
        """Raise DatasetError if a rule is not the one that a checkpoint was trained with.

        `digests` are those of the checkpoint by name, `where` is its file.
        """
        for name, digest in zip(self.names, self.digests, strict=True):
            if current(digests.get(name)) != digest:
                raise DatasetError(
                    f"{where}: rule {name!r}, whose columns this network reads, has changed since "
                    "the training; use the version of Hindcast it was trained with, or train again"
                )


def _features(rule: str) -> tuple[Feature, Feature]:
    """Return the two columns that a rule adds to candidates: its choice, and its rank."""
    choice = Feature(f"{rule} choice", "1", 0.0, 1.0, f"1 for the choice of {rule}, else 0")
    rank = Feature(
        f"{rule} rank",
        "1",
        0.0,
        1.0,
        f"share of the other feasible candidates with a lower score of {rule}",
    )
    return choice, rank


def own_spec(recipe: Recipe, spec: Spec, where: str) -> Spec:
    """Return the spec of a recipe's problem, whose ranges hold in the simulator.

    `spec` is that of a manifest, which may state anything. Raises DatasetError, which begins with
    `where`, if it has other features.
    """
    own = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    if _names(spec) != _names(own):
        raise DatasetError(
            f"{where}: the manifest states other features than scenario {own.scenario} has under "
            "the recipe's settings, so rules cannot read the log; see `hindcast verify`"
        )
    return own


def _names(spec: Spec) -> tuple[str, list[str], list[str]]:
    """Return the scenario of a spec and the names of its context and candidate features."""
    return spec.scenario, [f.name for f in spec.context], [f.name for f in spec.candidates]


def find_rules(
    scenario: str,
    names: Sequence[str],
    candidates: Sequence[Feature],
    context: Sequence[Feature] = (),
) -> RuleColumns:
    """Return the columns of rules of a scenario over candidates with these features.

    The features of the `context` serve to check observations, and may be left out. Raises
    RecipeError for a name that is not a deterministic rule over rows, for a name that occurs twice,
    and for a rule that needs a feature which is missing.
    """
    if not names:
        return NO_RULES
    try:
        known = rankable(scenario)
    except UnknownName as error:
        raise RecipeError(f"network: rules needs the rules of a scenario; {error}") from error
    features = {feature.name for feature in candidates}
    for place, name in enumerate(names):
        if name not in known:
            raise RecipeError(
                f"network: rules has {name!r}, expected deterministic rules of scenario "
                f"{scenario} that score rows; {did_you_mean(name, known)}"
            )
        if name in names[:place]:
            raise RecipeError(f"network: rules has {name!r} twice")
        missing = [column for column in known[name].needs if column not in features]
        if missing:
            raise RecipeError(
                f"network: rules has {name!r}, which needs the column {missing[0]!r}, but "
                "candidates do not have it under these settings"
            )
    rules = [known[name] for name in names]
    return RuleColumns(
        names=tuple(names),
        digests=tuple(digest_of(scenario, rule, candidates) for rule in rules),
        functions=tuple(rule.score for rule in rules),
        context=limits_of(context) if context else None,
        candidates=limits_of(candidates) if candidates else None,
        moment=None if not context or scenario in SIZED else len(context),
    )


NO_RULES: Final = RuleColumns()


class RuleBuffers(NamedTuple):
    """Scratch arrays for the rule columns of one observation; empty ones without rules."""

    widened: Rows  # (capacity, F + 2R) candidates with the columns of R rules
    rows: Ints  # (capacity,) rows of the feasible candidates
    values: Floats  # (capacity,) their scores by one rule


@compiled()
def _no_rules() -> RuleList:
    return List.empty_list(_RULE)


@compiled(types.void(RULES, _RULE))
def _append(rules: Any, rule: Any) -> None:
    rules.append(rule)


@cache
def _rule_list(functions: tuple[Compiled, ...]) -> Any:
    """Return compiled rules as a typed list, made by compiled code.

    A list made in Python would be compiled by every process, for most of a second.
    """
    found = _no_rules()
    for function in functions:
        _append(found, function)
    return found


@compiled()
def rule_buffers(rules: RuleList, candidates: Rows) -> RuleBuffers:
    """Return the buffers of `fill_rule_columns` and `widen`."""
    length, width = candidates.shape
    if len(rules) == 0:
        length = 0
    widened = np.zeros((length, width + COLUMNS_PER_RULE * len(rules)))
    return RuleBuffers(widened, np.empty(length, np.int64), np.empty(length))


@compiled(types.int64(FLOATS, types.uint64, types.float64), forceinline=True)
def _count_below(values: Any, count: Any, limit: Any) -> Any:
    """Return how many of the first values are below a limit.

    The index is unsigned: numba checks signed ones for negative values, which prevents
    vectorisation.
    """
    below = np.int64(0)
    for j in range(count):
        below += np.int64(values[np.uint64(j)] < limit)
    return below


@compiled()
def fill_rule_columns(
    rules: RuleList,
    context: Floats,
    candidates: Rows,
    feasible: Mask,
    scores: Floats,
    buffers: RuleBuffers,
) -> int:
    """Fill the columns of R rules, the last of widened[:N], in the rows of feasible candidates.

    context (C,), candidates (N, F) and feasible (N,) belong to the same observation. All other
    values of `widened` are left as they are. Returns the number M of feasible candidates, whose
    rows are then in buffers.rows[:M]. `scores` (N,) is scratch. Indices are unsigned, as in
    `_count_below`.
    """
    context, candidates, feasible, scores = uncounted((context, candidates, feasible, scores))
    widened, rows, values = uncounted(buffers)
    n, width = np.uint64(len(feasible)), np.uint64(candidates.shape[1])
    count, none = feasible_rows(feasible, n, rows), values[:0]
    others = np.float64(max(count, _ONE + _ONE) - _ONE)
    single = np.float64(count == _ONE)
    for r in range(len(rules)):
        rule, at = rules[r], width + np.uint64(COLUMNS_PER_RULE * r)
        rule(context, candidates, feasible, none, scores)
        for unsigned in range(count):
            i = np.uint64(unsigned)
            values[i] = scores[np.uint64(rows[i])]
        ordered = np.sort(values[:count]) if count > _FEW else values
        best = np.uint64(0)
        for unsigned in range(count):
            i = np.uint64(unsigned)
            if count > _FEW:
                below = np.searchsorted(ordered, values[i])
            else:
                below = _count_below(values, count, values[i])
            row = np.uint64(rows[i])
            widened[row, at + np.uint64(RANK)] = (below + single) / others
            widened[row, at + np.uint64(CHOICE)] = 0.0
            if values[i] > values[best]:
                best = i
        if count > 0:
            widened[np.uint64(rows[best]), at + np.uint64(CHOICE)] = 1.0
    return np.int64(count)  # type: ignore[return-value]


@compiled()
def widen(
    rules: RuleList,
    context: Floats,
    candidates: Rows,
    feasible: Mask,
    scores: Floats,
    buffers: RuleBuffers,
) -> int:
    """Copy the feasible candidates to widened[:N] and fill their rule columns.

    The parameters and the result are those of `fill_rule_columns`.
    """
    count = fill_rule_columns(rules, context, candidates, feasible, scores, buffers)
    widened, rows, _values = uncounted(buffers)
    width = np.uint64(candidates.shape[1])
    for unsigned in range(np.uint64(count)):
        i = np.uint64(rows[np.uint64(unsigned)])
        for f in range(width):
            widened[i, np.uint64(f)] = candidates[i, np.uint64(f)]
    return count


@compiled()
def _widen_all(
    rules: RuleList, context: Rows, candidates: Rows, offsets: Ints, feasible: Mask, wide: Rows
) -> None:
    """Fill wide (V, F + 2R) for B observations, the candidates of b in offsets[b:b + 2]."""
    rows, values, scores = np.empty(len(wide), np.int64), np.empty(len(wide)), np.empty(len(wide))
    for b in range(len(context)):
        first, stop = offsets[b], offsets[b + 1]
        widen(
            rules,
            context[b],
            candidates[first:stop],
            feasible[first:stop],
            scores[first:stop],
            RuleBuffers(wide[first:stop], rows, values),
        )


@cache
def _unbounded(width: int) -> Limits:
    """Return the limits of features of which nothing is known."""
    return limits_of([Feature(f"column {j}", "1", -np.inf, np.inf, "") for j in range(width)])


def rule_columns(
    rules: RuleColumns,
    context: NDArray[np.floating],
    candidates: NDArray[np.floating],
    offsets: NDArray[np.int64],
    feasible: NDArray[np.bool_],
    where: str = "observation",
) -> NDArray[np.float64]:
    """Return the candidates of B observations with the columns of R rules, (V, F + 2R).

    context (B, C); candidates (V, F), those of observation b in rows offsets[b]:offsets[b + 1];
    feasible (V,). All candidates of an observation must be there. Raises IndexError if the arrays
    do not fit each other, and DatasetError, which begins with `where`, for a value that is out of
    the range of its feature.
    """
    if not len(context) == len(offsets) - 1 or not len(candidates) == len(feasible) == offsets[-1]:
        raise IndexError(
            f"{len(context)} contexts, {len(candidates)} candidates, {len(feasible)} masks and "
            f"{len(offsets)} offsets are not those of one set of observations"
        )
    wanted = rules.moment, None if rules.candidates is None else len(rules.candidates.features)
    given = context.shape[1], candidates.shape[1]
    if any(width not in (None, own) for width, own in zip(wanted, given, strict=True)):
        raise IndexError(f"{given} columns of context and candidates, but rules read {wanted}")
    for values, known in ((context, rules.context), (candidates, rules.candidates)):
        fits = known is not None and len(known.features) == values.shape[1]
        limits = known if known is not None and fits else _unbounded(values.shape[1])
        limits.require(values, where)
    wide = np.zeros((len(candidates), candidates.shape[1] + rules.width))
    wide[:, : candidates.shape[1]] = candidates
    _widen_all(
        rules.scores,
        np.array(context, np.float64, order="C"),
        np.array(candidates, np.float64, order="C"),
        np.array(offsets, np.int64, order="C"),
        np.array(feasible, np.bool_, order="C"),
        wide,
    )
    return wide
