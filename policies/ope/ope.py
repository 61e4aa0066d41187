"""`hindcast ope`: returns of policies, estimated from a dataset and compared with the simulator.

    OUT/estimates.parquet   one row per policy and estimator
    OUT/ope.json            the settings, and selection metrics by estimator; written last
    OUT/truth/              the simulator's evaluation of the same policies on the same windows
    OUT/.estimating/        results of finished policies while a call is running

The evaluated policy explores. A greedy policy would have produced hardly any of the logged episodes
of some hundred decisions, so its weights would be zero. By default the policy explores as much as
the log's own rules do (the largest epsilon below 1 of the recipe's behaviours). A rule that is
among the behaviours then has its own component in the log, and a learned policy is compared with
rules under the same disturbance. The truth is that of the same exploring policy.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset.estimated import read_estimates
from hindcast.pipeline.dataset.lineage import selection_caveats
from hindcast.pipeline.errors import InputError, TraceError, unknown_name
from hindcast.pipeline.estimators import ESTIMATORS, Estimate, LoggedEpisodes, Settings, estimate
from hindcast.pipeline.estimators.selection import assess, rank_correlation
from hindcast.pipeline.estimators.verdicts import Held, of_certainty
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import RECORDED
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic, readings
from hindcast.pipeline.simulation.rollout import Planner
from hindcast.pipeline.storage.extras import installed, missing
from hindcast.pipeline.storage.provenance import described, provenance
from hindcast.policies.entrants import entrants, own_policies
from hindcast.policies.ope.answers import described_answers
from hindcast.policies.ope.basis import Basis, fit_basis, linear_features
from hindcast.policies.ope.behaviour.propensities import aligned, conditional, support
from hindcast.policies.ope.consensus import describe_consensus, describe_order
from hindcast.policies.ope.episodes import WholeEpisodes, read_episodes
from hindcast.policies.ope.left_out import can_be_left_out, held_of, own_return
from hindcast.policies.ope.probabilities import (
    Propensities,
    logged_propensities,
    mixture_propensities,
    policy_probabilities,
)
from hindcast.policies.ope.results import Folder, finite, rows_of
from hindcast.policies.ope.similarity import PolicySpace, policy_space
from hindcast.policies.ope.truth import simulate, true_return
from hindcast.policies.registry import behaviours

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

ESTIMATED: Final = "estimated"
RECORDED_LEVEL: Final = "recorded"
_FEW: Final = 20  # windows; of fewer, skewed returns are not seen
_EPSILON: Final = 0.1  # if no behaviour of the log explores


@dataclass(frozen=True)
class OPESettings:
    """Settings of off-policy evaluation.

    Attributes:
        split: Split whose episodes are weighted. Values are fitted on another split if there is
            one.
        epsilon: Share of uniform choices of the evaluated policies, 0 to 1; None means as much as
            the log's rules explore.
        temperature: Softmax temperature of the evaluated policies, 0 or more; 0 means greedy.
        estimators: Names of the estimators, all by default.
        propensities: "mixture" weighs by the mixture of a window's behaviours, "logged" by the
            recorded probabilities, "estimated" by those of a behaviour model beside the data.
        limit: Number of decisions to read of a split, at least 1.
        fqe_steps: Gradient steps of fitted Q evaluation per policy, 0 or more.
        truth_seeds: Episodes per window of the simulated policies, 0 or more; 0 means no
            simulation.
        seed: Seed of all draws.
        intervals: Settings of the estimators and their intervals.
    """

    split: str = "validation"
    epsilon: float | None = None
    temperature: float = 0.0
    estimators: tuple[str, ...] = tuple(ESTIMATORS)
    propensities: Literal["mixture", "logged", "estimated"] = "mixture"
    limit: int = 100_000
    fqe_steps: int = 1500
    truth_seeds: int = 5
    seed: int = 0
    intervals: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for name in self.estimators:
            if name not in ESTIMATORS:
                raise unknown_name("estimator", name, ESTIMATORS)
        if self.epsilon is not None and not 0.0 <= self.epsilon <= 1.0:
            raise InputError(f"epsilon is {self.epsilon}, expected a number from 0 to 1")
        if self.temperature < 0.0:
            raise InputError(f"temperature is {self.temperature}, expected 0 or more")


@dataclass(frozen=True)
class OPEResult:
    """Result of an off-policy evaluation.

    Attributes:
        rows: Rows as in estimates.parquet.
        description: Description as in ope.json.
    """

    rows: pl.DataFrame
    description: Mapping[str, Any]


def default_epsilon(recipe: Recipe) -> float:
    """Return the largest epsilon below 1 of the recipe's behaviours."""
    return max((b.epsilon for b in recipe.behaviours if 0.0 < b.epsilon < 1.0), default=_EPSILON)


def exploring(candidate: Entrant, epsilon: float, temperature: float) -> Entrant:
    """Return the policy with the exploration it is evaluated with.

    A policy that already draws (random) is returned unchanged.
    """
    behaviour = candidate.behaviour
    if behaviour.epsilon > 0.0 or behaviour.temperature > 0.0:
        return candidate
    explored = replace(behaviour, epsilon=epsilon, temperature=temperature)
    return replace(candidate, behaviour=explored)


def evaluate_offline(
    dataset: Path | str,
    policies: Sequence[str] = (),
    settings: OPESettings | None = None,
    *,
    out: Path | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> OPEResult:
    """Estimate the policies (the recipe's by default) on a dataset, and simulate them.

    Raises InputError for policies whose probabilities are not known, for a log without
    propensities, and for names that do not exist.
    """
    settings = settings or OPESettings()
    opened = datasets.open(dataset)
    recipe = opened.recipe
    names = policies or [n for n in own_policies(recipe) if n != "random_linear"]
    if not names:
        raise InputError("no policies to evaluate; name some with --policy")
    if settings.epsilon is None:
        epsilon = 0.0 if settings.temperature > 0.0 else default_epsilon(recipe)
        settings = replace(settings, epsilon=epsilon)
    assert settings.epsilon is not None
    targets = [
        exploring(c, settings.epsilon, settings.temperature) for c in entrants(recipe, names)
    ]
    _refuse_unknown(targets)
    with Folder.open(out, opened, settings, targets) as folder:
        return _evaluate(
            opened, targets, settings, folder, command, progress or (lambda _d, _t: None)
        )


def _evaluate(
    opened: Dataset,
    targets: Sequence[Entrant],
    settings: OPESettings,
    folder: Folder,
    command: str,
    progress: Progress,
) -> OPEResult:
    """Return the estimates, verdicts and true values of policies on a split of a dataset."""
    work = len(targets) + 2
    progress(0, work)
    images = any("image" in readings(c.behaviour.policy) for c in targets)
    log = read_episodes(opened, settings.split, limit=settings.limit, image=images)
    unknown = opened.recipe.level == RECORDED_LEVEL or np.isnan(log.propensity).any()
    if unknown and settings.propensities != ESTIMATED:
        raise InputError(
            f"{opened.folder}: the decisions were recorded elsewhere, and their propensities are "
            f"not known; estimate them with `hindcast behaviour {opened.folder}`, then give "
            "--propensities estimated"
        )
    of_log: dict[str, Behaviour] = {}
    for recipe in opened.manifest.recipes:
        of_log |= _observable_behaviours(recipe)
    estimates = None
    if settings.propensities == "mixture":
        propensities = mixture_propensities(log, of_log, can_be_left_out(log, of_log))
    elif settings.propensities == ESTIMATED:
        estimates = read_estimates(opened.folder, opened.manifest)
        propensities = estimated_propensities(log, estimates)
    else:
        propensities = logged_propensities(log)
    settings, no_torch = _without_values(settings)
    settings, left_out = _without_policies(settings, log, of_log)
    job = _Job(opened, log, propensities, settings, images, of_log, estimates)
    job.notes += [*no_torch, *left_out]
    if refused := job.refused(targets):
        targets = [c for c in targets if c.behaviour.name not in refused]
        job.notes += [f"{name} is refused: {reason}" for name, reason in refused.items()]
        if not targets:
            raise InputError(f"{opened.folder}: no estimate: {'; '.join(job.notes)}")
    scores, notes = _truth(job, targets, folder, command)
    certain = _certain(log) if estimates is None else ""  # replays of a log are certain
    selection = (caveat.text for caveat in selection_caveats(opened.manifest.lineage))
    told = *selection, _few(opened, log, settings), propensities.note
    notes = [note for note in (*told, *job.notes, *notes) if note]
    progress(1, work)
    frames = []
    for step, candidate in enumerate(targets, start=2):
        frame, behaviour = folder.finished(candidate), candidate.behaviour
        if frame is None:
            truth = None
            if scores is not None:
                truth = true_return(scores, behaviour.name, log.group)
            logged = is_logged(behaviour, of_log)
            frame = rows_of(
                candidate, job.estimate(behaviour), job.held, truth, logged=logged,
                refusal="" if logged else certain,
            )  # fmt: skip
            folder.keep(candidate, frame)
        frames.append(frame)
        progress(step, work)
    rows, logged_return = pl.concat(frames), float(job.plain.returns.mean())
    reference = reference_of(rows)
    known = rows.filter(pl.col("value").is_not_null().any().over("policy"))
    about = [{"name": n, "description": ESTIMATORS[n].description} for n in settings.estimators]
    if scores is not None:
        about = [{**a, **_selection(rows, a["name"], logged_return, reference)} for a in about]
    description = finite({
        "dataset": opened.manifest.name,
        "digest": opened.manifest.digest,
        "scenario": opened.recipe.scenario,
        "objective": opened.recipe.objective,
        "split": settings.split,
        "windows": len(np.unique(log.group)),
        "episodes": len(log),
        "decisions": log.decisions,
        "logged_return": logged_return,
        "epsilon": settings.epsilon,
        "temperature": settings.temperature,
        "propensities": propensities.kind,
        "reference": reference,
        "estimators": about,
        "left_out": {name: asdict(held) for name, held in job.held.items()},
        **described_answers(rows),
        "order": describe_order(known),
        "consensus": describe_consensus(known, logged_return, reference_of(known)),
        "notes": notes,
        "command": command,
        "provenance": described([provenance(**_torch())]),
    })  # fmt: skip
    folder.finish(rows, description)
    progress(work, work)
    return OPEResult(rows, description)


def _torch() -> dict[str, Any]:
    """Return the setting of torch if networks were fitted."""
    if "torch" not in sys.modules:
        return {}
    from hindcast.policies.training.devices import torch_setting
    from hindcast.policies.training.learner import CPU

    return {"torch": torch_setting(CPU)}


def _observable_behaviours(recipe: Recipe) -> Mapping[str, Behaviour]:
    """Return the behaviours of a recipe whose probabilities follow from an observation."""
    with_probabilities: dict[str, Behaviour] = {}
    for entry in recipe.behaviours:
        with suppress(InputError):  # recorded elsewhere: this rule is not available
            with_probabilities |= behaviours(replace(recipe, behaviours=(entry,)))
    return {name: b for name, b in with_probabilities.items() if _reads_observations(b.policy)}


def _reads_observations(policy: Any) -> bool:
    """Return whether a policy needs neither the memory of the simulator nor copies of it."""
    return not (_looks_ahead(policy) or isinstance(policy, MemoryRule))


def _looks_ahead(policy: Any) -> bool:
    return isinstance(policy, Planner) and not isinstance(policy, Heuristic)


def _without_values(settings: OPESettings) -> tuple[OPESettings, list[str]]:
    """Return the settings without estimators that fit networks if torch is missing, and a note.

    Raises InputError if none is left.
    """
    names = [name for name in settings.estimators if ESTIMATORS[name].values]
    if not names or installed("torch"):
        return settings, []
    error = missing("torch", f"fitted Q evaluation ({', '.join(names)})")
    kept = tuple(name for name in settings.estimators if name not in names)
    if not kept:
        raise error
    return replace(settings, estimators=kept), [f"left out: {error}"]


def _without_policies(
    settings: OPESettings, log: WholeEpisodes, of_log: Mapping[str, Behaviour]
) -> tuple[OPESettings, list[str]]:
    """Return the settings without estimators that the log does not allow, and notes about them.

    Raises InputError if none is left.
    """
    missing = sorted(set(log.table["behaviour"].to_list()) - set(of_log))
    names = [name for name in settings.estimators if ESTIMATORS[name].policies]
    if not missing or not names:
        return settings, []
    reason = f"{', '.join(names)}: left out, since {missing[0]} is not a known behaviour"
    kept = tuple(name for name in settings.estimators if name not in names)
    if not kept:
        raise InputError(f"no estimate: {reason}")
    return replace(settings, estimators=kept), [reason]


def _few(opened: Dataset, log: WholeEpisodes, settings: OPESettings) -> str:
    """Return a note if the intervals are over very few windows, else ""."""
    windows = len(np.unique(log.group))
    if windows >= _FEW:
        return ""
    in_split = opened.episodes(settings.split)["window"].n_unique()
    text = f"intervals are over windows, and {windows} of {in_split} of this split were read: "
    more = "give a higher --limit" if in_split > windows else "build the dataset with more"
    return text + f"they may be too narrow; {more}"


def _certain(log: WholeEpisodes) -> str:
    """Return why a deterministic log has no answer for a policy that it lacks, else ""."""
    feasible = np.add.reduceat(log.feasible.astype(np.int64), log.rows[:-1])
    propensity = log.propensity[feasible > 1]
    if not len(propensity) or not (propensity >= 1.0 - 1e-6).all():
        return ""
    return of_certainty(len(propensity))


def _refuse_unknown(targets: Sequence[Entrant]) -> None:
    for candidate in targets:
        policy = candidate.behaviour.policy
        if isinstance(policy, Heuristic) and policy.draw is not None:
            raise InputError(
                f"{candidate.behaviour.name} draws its parameters for every episode, so the "
                "probability of a single choice is not known; leave it out"
            )
        if isinstance(policy, MemoryRule):
            raise InputError(
                f"{candidate.behaviour.name} chooses from the memory of the simulator, which a log "
                "does not have; leave it out"
            )
        if _looks_ahead(policy):
            raise InputError(
                f"{candidate.behaviour.name} looks ahead in the simulator, which a log cannot "
                "provide; leave it out"
            )


def _truth(
    job: "_Job", targets: Sequence[Entrant], folder: Folder, command: str
) -> tuple[pl.DataFrame | None, list[str]]:
    settings, recipe = job.settings, job.opened.recipe
    if settings.truth_seeds == 0:
        return None, ["no truth: the simulation was switched off"]
    if recipe.trace.format == RECORDED:
        return None, ["no truth: the decisions were recorded elsewhere, so there is no simulator"]
    try:
        return simulate(
            recipe, targets, settings.split, folder.truth, seeds=settings.truth_seeds,
            command=command,
        ), []  # fmt: skip
    except TraceError as error:
        return None, [f"no truth: {error}"]


class _Job:
    """A log, and everything that all policies share; values are fitted when first needed."""

    def __init__(
        self,
        opened: Dataset,
        log: WholeEpisodes,
        propensities: Propensities,
        settings: OPESettings,
        images: bool,
        of_log: Mapping[str, Behaviour],
        estimates: pl.DataFrame | None = None,
    ) -> None:
        self._of_log = of_log
        self.opened, self.log, self.settings, self._images = opened, log, settings, images
        self.notes: list[str] = []
        self._estimates = estimates
        self._propensities = propensities
        estimators = [ESTIMATORS[name] for name in settings.estimators]
        self._values = any(e.values for e in estimators)
        self._features = any(e.features for e in estimators)
        self._policies = any(e.policies for e in estimators)
        self.plain = LoggedEpisodes(
            log.offsets, propensities.behaviour, np.zeros(log.decisions), log.reward,
            group=log.group,
        )  # fmt: skip
        split = self._fit_split()
        if self._values and split == settings.split:
            self.notes.append(
                f"values were fitted on the same split {split}: dr is no longer unbiased"
            )

    def _fit_split(self) -> str:
        present = self.opened.episodes()["split"].unique().to_list()
        others = [s for s in ("train", "validation", "test") if s in present]
        return next((s for s in others if s != self.settings.split), self.settings.split)

    def refused(self, targets: Sequence[Entrant]) -> dict[str, str]:
        """Return policies that estimated propensities do not support, with the reasons."""
        if self._estimates is None:
            return {}
        refused = {}
        for candidate in targets:
            every = policy_probabilities(candidate.behaviour, self.log)
            pair = conditional(every, self.log, self.opened.spec, self._estimates)
            with np.errstate(divide="ignore"):
                steps = np.log(pair[0]) - np.log(pair[1])
            measured = support(np.add.reduceat(steps, self.log.offsets[:-1]))
            if measured.collapsed:
                refused[candidate.behaviour.name] = measured.reason
        return refused

    def estimate(self, behaviour: Behaviour) -> dict[str, Estimate]:
        """Return all estimates of one policy."""
        return self._estimates_of(self._episodes(behaviour), self.settings.estimators)

    def _estimates_of(self, episodes: LoggedEpisodes, names: Sequence[str]) -> dict[str, Estimate]:
        draws = [self.settings.seed, 7]  # the same for every policy and estimator
        return {
            name: estimate(name, episodes, self.settings.intervals, np.random.default_rng(draws))
            for name in names
        }

    def _episodes(self, behaviour: Behaviour, values: bool = True) -> LoggedEpisodes:
        """Return the log with all that estimates of a policy need, fitted values on request."""
        log = self.log
        probabilities = policy_probabilities(behaviour, log)
        covered = np.add.reduceat(probabilities * self._propensities.possible, log.rows[:-1])
        more: dict[str, Any] = {}
        if self._values and values:
            more["q"], more["v"] = self._fit(behaviour, probabilities)
        if self._features:
            more |= linear_features(self._basis, log, probabilities)
        if self._policies:
            more["policies"] = self._space.logged
            more["to_policies"] = self._space.distances(behaviour)
        likely = probabilities[log.chosen]
        if self._estimates is not None:
            likely, _ = conditional(probabilities, log, self.opened.spec, self._estimates)
            covered = np.ones(log.decisions)
        return LoggedEpisodes(
            log.offsets, self._propensities.behaviour, likely, log.reward,
            covered=covered, group=log.group, mixture=self._propensities.kind == "mixture", **more,
        )  # fmt: skip

    @cached_property
    def held(self) -> Mapping[str, Held]:
        """Coverage of intervals on the log's behaviours, each left out once, by estimator.

        Values would have to be fitted again without each behaviour: estimators with values, and all
        of estimated propensities, have none left out.
        """
        made: dict[str, list[tuple[Estimate, float, float]]] = {
            name: [] for name in self.settings.estimators
        }
        names = [name for name in made if not ESTIMATORS[name].values]
        if self._estimates is not None or not names:
            return {name: Held() for name in made}
        played = self.log.table["behaviour"].to_numpy()
        for name, behaviour in can_be_left_out(self.log, self._of_log).items():
            own = played == name
            every = self._episodes(behaviour, values=False)
            if every.policies is not None and every.to_policies is not None:
                others = self._space.names != name
                every = replace(
                    every, policies=every.policies.take(others),
                    to_policies=every.to_policies[others],
                )  # fmt: skip
            without = self._propensities.without.get(name, self._propensities.behaviour)
            episodes = replace(every, behaviour=without).take(~own)
            earned = own_return(every, own)
            gained = earned - float(episodes.returns.mean())
            for estimator, found in self._estimates_of(episodes, names).items():
                made[estimator].append((found, earned, gained))
        return {name: held_of(of_estimator) for name, of_estimator in made.items()}

    @cached_property
    def _space(self) -> PolicySpace:
        """Space of the log's policies, with the returns of the split that values are fitted on."""
        split = self._fit_split()
        more = self.opened.episodes(split)
        if split == self.settings.split:
            more = more.head(0)
        more = more.filter(pl.col("behaviour").is_in(list(self._of_log)))
        rng = np.random.default_rng([self.settings.seed, 11])
        return policy_space(self.log, more, self._of_log, self.opened.spec, rng)

    @cached_property
    def _basis(self) -> Basis:
        return fit_basis(self.log, self.opened.spec)

    @cached_property
    def _fitted(self) -> tuple[WholeEpisodes, Any, Any]:
        """Episodes to fit values on, settings of FQE, and the common warm start of all policies."""
        from hindcast.policies.ope import fqe

        split, settings, log = self._fit_split(), self.settings, self.log
        if split != settings.split:
            log = read_episodes(self.opened, split, limit=settings.limit, image=self._images)
        fqe_settings = fqe.FQESettings(steps=settings.fqe_steps)
        return log, fqe_settings, fqe.warm_start(log, self.opened.spec, fqe_settings, settings.seed)

    def _fit(self, behaviour: Behaviour, probabilities: Array) -> tuple[Array, Array]:
        """Return the policy's values (q, v) on the log, from networks fitted on another split."""
        from hindcast.policies.ope.fqe import fit_fqe

        log, fqe_settings, start = self._fitted
        on_log = policy_probabilities(behaviour, log)
        fitted = fit_fqe(log, on_log, self.opened.spec, fqe_settings, start, self.settings.seed)
        return fitted.values(self.log, probabilities)


def estimated_propensities(log: WholeEpisodes, estimates: pl.DataFrame) -> Propensities:
    """Return the propensities of a behaviour model; 1 for decisions that it does not cover."""
    estimated = aligned(log, estimates)
    return Propensities(
        np.where(np.isnan(estimated), 1.0, estimated), log.feasible.copy(), ESTIMATED,
        "propensities are estimated by a behaviour model; decisions that wait are taken as given",
    )  # fmt: skip


def is_logged(behaviour: Behaviour, of_log: Mapping[str, Behaviour]) -> bool:
    """Return True if the policy, exploration included, is one of the log's behaviours."""
    return any(
        b.policy is behaviour.policy
        and (b.epsilon, b.temperature) == (behaviour.epsilon, behaviour.temperature)
        for b in of_log.values()
    )


def new_rank_correlation(rows: pl.DataFrame, estimator: str) -> float:
    """Return the rank correlation among policies that are not in the log; NaN for fewer than three.

    A behaviour of the log is estimated from its own episodes. A choice among trained policies
    depends on how policies rank that never ran.
    """
    new = rows.filter((pl.col("estimator") == estimator) & ~pl.col("logged"))
    if new.height < 3:
        return float("nan")
    return rank_correlation(new["value"].fill_null(-np.inf).to_numpy(), new["truth"].to_numpy())


def reference_of(rows: pl.DataFrame) -> str | None:
    """Return the heuristic with the highest true return; None without truths or heuristics."""
    rules = rows.filter((pl.col("kind") == "heuristic") & pl.col("truth").is_not_null())
    if rules.is_empty():
        return None
    return str(rules.sort("truth", descending=True, maintain_order=True)["policy"][0])


def _selection(
    rows: pl.DataFrame, estimator: str, logged: float, best: str | None
) -> Mapping[str, Any]:
    """Return the selection metrics of one estimator; `best` is the name of the reference."""
    table = rows.filter(pl.col("estimator") == estimator)
    metrics = assess(
        table["value"].fill_null(float("nan")).to_numpy(), table["truth"].to_numpy(),
        behaviour=logged, reference=None if best is None else table["policy"].to_list().index(best),
    )  # fmt: skip
    return asdict(metrics) | {"rank_correlation_new": new_rank_correlation(rows, estimator)}
