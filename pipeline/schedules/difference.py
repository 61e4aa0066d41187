"""Decisions at which two policies differ on a window: the first one, and the costliest ones.

Up to the first decision that differs, both policies see the same states. Behind it, each goes its
own way. The costliest decisions are therefore on the way of the first policy: those at which the
second one would have chosen otherwise, in the same state.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.evaluate import Job
from hindcast.pipeline.scenarios.queue import layout as q
from hindcast.pipeline.scenarios.queue.several.transition import is_several
from hindcast.pipeline.schedules.playback import (
    Choose,
    Played,
    chooser_of,
    make_choice,
    play_window,
)
from hindcast.pipeline.schedules.rows import Row, namer_of
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.sentences import sentence_of
from hindcast.pipeline.schedules.windows import LOOKS, require_schedules, schedule_of
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays, begin_episode
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import (
    Behaviour,
    Heuristic,
    best_feasible,
    fill_probabilities,
)
from hindcast.pipeline.simulation.rollout import Planner
from hindcast.pipeline.simulation.seeds import generator

MOST_SHOWN: Final = 200  # candidates of a decision that are told; the chosen ones always are
_WISHES: Final = (q.WISHING, q.WISHED)


@dataclass(frozen=True)
class Candidate:
    """A candidate of a decision.

    Attributes:
        row: Its row.
        job: Number of its job in the schedules; None for a row that lets time pass.
        machine: Where it places the job; None where the scenario places on no machine.
        text: The row in words.
        feasible: Whether it may be chosen.
        features: Its features by name, those that only one of the policies reads too.
        scores: Its score by each policy, None where a policy gives no scores.
        probabilities: Its probability under each policy, None where that is not known.
    """

    row: int
    job: int | None
    machine: int | None
    text: str
    feasible: bool
    features: dict[str, float]
    scores: tuple[float | None, float | None]
    probabilities: tuple[float | None, float | None]


@dataclass(frozen=True)
class Came:
    """Start, wait, slowdown and place of a job under a policy; None if unknown or not started."""

    start_s: float | None
    wait_s: float | None
    bounded_slowdown: float | None
    machine: list[int] | None


@dataclass(frozen=True)
class Difference:
    """A decision at which two policies choose differently in the same state.

    Attributes:
        scenario: Name of the scenario.
        policies: Names of the two policies.
        window: Number of the window.
        decision: Number of the decision within the window, from 0.
        at_s: Moment on the clock of the schedules.
        context: Features of the moment by name.
        count: Number of candidates.
        candidates: The candidates in the order of rows; those with the best scores if there are
            more than MOST_SHOWN.
        chosen: Row that each policy chooses.
        jobs: Job of each chosen row; None for a row that lets time pass.
        came: What became of these two jobs: [policy][job].
        cost_s: Waits of the two jobs under the first policy less those under the second, in units
            of the clock; None if one of them is not known. All later decisions of the policies
            contribute to it too.
        sentence: The difference in a sentence with numbers.
    """

    scenario: str
    policies: tuple[str, str]
    window: int
    decision: int
    at_s: float
    context: dict[str, float]
    count: int
    candidates: tuple[Candidate, ...]
    chosen: tuple[int, int]
    jobs: tuple[int | None, int | None]
    came: tuple[tuple[Came | None, Came | None], tuple[Came | None, Came | None]]
    cost_s: float | None
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON values; numbers that are not finite are None."""
        found: dict[str, Any] = _finite(asdict(self))
        return found


@dataclass(frozen=True)
class Comparison:
    """Two policies on a window.

    Attributes:
        schedules: Their schedules.
        decisions: Number of decisions of each.
        first: The first decision that differs; None if all are equal.
        differing: Decisions on the way of the first policy at which the second would have chosen
            otherwise; None if that cannot be told: one of them draws, or gives no scores.
        costliest: The costliest of them by the size of cost_s, the first one of every job: a job
            that waits under one policy and not under the other differs at many decisions.
    """

    schedules: tuple[Schedule, Schedule]
    decisions: tuple[int, int]
    first: Difference | None
    differing: int | None
    costliest: tuple[Difference, ...]


def compare_window(
    job: Job, window: int, a: Behaviour, b: Behaviour, seed: int = 0, most: int = 10
) -> Comparison:
    """Compare two policies on a window, of which at most `most` costly decisions are told.

    Raises InputError for a scenario without schedules, or a policy that does not tell its choices.
    """
    require_schedules(job.scenario.name)
    look = LOOKS.get(job.scenario.name)
    played = tuple(play_window(job, of, window, seed, look) for of in (a, b))
    ways = _Ways((played[0], played[1]))
    length = min(len(of.choices) for of in played)
    unequal = np.flatnonzero(played[0].choices[:length] != played[1].choices[:length])
    first = None
    if len(unequal):
        at = int(unequal[0])
        (first,) = ways.told({at: int(played[1].choices[at])})
    otherwise = {at: (row, rows) for at, row, rows in ways.otherwise()}
    costs: dict[int | None, tuple[float, int]] = {}
    for at, (_row, rows) in otherwise.items():
        jobs = rows[0].job, rows[1].job
        costs.setdefault(ways.most_moved(jobs), (abs(ways.cost(jobs) or 0.0), at))
    ranked = [at for _cost, at in sorted(costs.values(), key=lambda of: (-of[0], of[1]))[:most]]
    details = {one.decision: one for one in ways.told({at: otherwise[at][0] for at in ranked})}
    return Comparison(
        schedules=ways.schedules,
        decisions=(len(played[0].choices), len(played[1].choices)),
        first=first,
        differing=len(otherwise) if ways.can_tell else None,
        costliest=tuple(details[at] for at in ranked),
    )


class _Ways:
    """The way of the first policy through a window, seen by both policies."""

    def __init__(self, played: tuple[Played, Played]) -> None:
        self.played = played
        self.schedules = schedule_of(played[0]), schedule_of(played[1])
        self.came = [_by_job(schedule) for schedule in self.schedules]
        self.judges = [_Judge(of) for of in played]
        self.name = namer_of(played[0])

    @property
    def can_tell(self) -> bool:
        """True if the second policy can say what it would choose on the way of the first."""
        return not any(of.behaviour.stochastic for of in self.played) and self.judges[1].tells

    def otherwise(self) -> list[tuple[int, int, tuple[Row, Row]]]:
        """Return (decision, row of the second policy, both rows) wherever the second differs."""
        found = list[tuple[int, int, tuple[Row, Row]]]()
        if not self.can_tell:
            return found
        other = self.judges[1]
        for at, choice, own, episode in self._states():
            row = other.choice(episode)
            if row != choice:
                ints = own.ints
                found.append((at, row, (self.name(ints, choice), self.name(ints, row))))
        return found

    def cost(self, jobs: tuple[int | None, int | None]) -> float | None:
        """Return the waits of jobs under the first policy less those under the second."""
        moves = [self._move(job) for job in {job for job in jobs if job is not None}]
        return None if None in moves else sum(move for move in moves if move is not None)

    def most_moved(self, jobs: tuple[int | None, int | None]) -> int | None:
        """Return the job whose wait differs most between the policies."""
        known = sorted({job for job in jobs if job is not None})
        return max(known, key=lambda job: abs(self._move(job) or 0.0), default=None)

    def _move(self, job: int) -> float | None:
        """Return the wait of a job under the first policy less that under the second."""
        waits = [came[job].wait_s if job in came else None for came in self.came]
        return None if waits[0] is None or waits[1] is None else waits[0] - waits[1]

    def told(self, wanted: dict[int, int]) -> list[Difference]:
        """Return decisions, given with the row that the second policy chooses."""
        left, found = set(wanted), []
        states = self._states() if wanted else ()
        for at, choice, own, other in states:
            if at in left:
                left.remove(at)
                found.append(self._difference(at, (choice, wanted[at]), (own, other)))
            if not left:
                break
        return found

    def _states(self) -> Iterator[tuple[int, int, EpisodeArrays, EpisodeArrays]]:
        """Yield (decision, choice, episode) along the way, and the episode as the second sees it.

        The second policy may read other columns, so it has an episode of its own.
        """
        (first, second), at, status = self.played, 0, k.RUNNING
        own, other = (begin_episode(of.job.spec, of.instance) for of in self.played)
        choose: Choose = lambda at, _episode: int(first.choices[at])  # noqa: E731
        if isinstance(first.behaviour.policy, MemoryRule):
            choose = chooser_of(first.job, first.instance, first.behaviour, first.window)
        while status == k.RUNNING:
            first.job.scenario.observe(*own)
            second.job.scenario.observe(*other)
            choice = choose(at, own)
            _pass_wishes(own.ints, other.ints, first)
            yield at, choice, own, other
            make_choice(second.job, other, choice)
            status = make_choice(first.job, own, choice)
            at += 1

    def _difference(
        self, at: int, chosen: tuple[int, int], episodes: tuple[EpisodeArrays, EpisodeArrays]
    ) -> Difference:
        """Return a decision at which two policies differ, with candidates and what came of it."""
        first = self.played[0]
        judged = [
            judge.judged(episode, row)
            for judge, episode, row in zip(self.judges, episodes, chosen, strict=True)
        ]
        n = len(judged[0].features)
        rows = [self.name(episodes[0].ints, row) for row in chosen]
        jobs = rows[0].job, rows[1].job
        facts = self.schedules[0].facts
        at_s = facts["from_s"] + float(episodes[0].floats[k.TIME])
        if facts["clock"] == "arrival":  # whose simulated time is the load
            at_s = float(rows[0].job or 0)
        came = tuple(
            tuple(None if job is None else of.get(job) for job in jobs) for of in self.came
        )
        found = Difference(
            scenario=first.job.scenario.name,
            policies=(first.behaviour.name, self.played[1].behaviour.name),
            window=first.window,
            decision=at,
            at_s=at_s,
            context={
                f.name: float(value)
                for f, value in zip(first.job.spec.context, episodes[0].context, strict=True)
            },
            count=n,
            candidates=tuple(
                self._candidate(row, episodes[0], judged)
                for row in (*_shown(judged, chosen, n), *sorted({r for r in chosen if r >= n}))
            ),
            chosen=chosen,
            jobs=jobs,
            came=came,  # type: ignore[arg-type]
            cost_s=self.cost(jobs),
            sentence="",
        )
        told = sentence_of(asdict(found), facts)
        return Difference(**{**vars(found), "sentence": told})

    def _candidate(self, row: int, episode: EpisodeArrays, judged: "list[_Judged]") -> Candidate:
        """Return a candidate; a rule over the memory may wait, which is no row of the others."""
        named, shown = self.name(episode.ints, row), row < len(judged[0].features)
        scores, probabilities = (
            tuple(None if of is None or not shown else float(of[row]) for of in each)
            for each in ([of.scores for of in judged], [of.probabilities for of in judged])
        )
        return Candidate(
            row, named.job, named.machine, named.text,
            bool(episode.feasible[row]) if shown else True,
            {**judged[1].features[row], **judged[0].features[row]} if shown else {},
            scores,  # type: ignore[arg-type]
            probabilities,  # type: ignore[arg-type]
        )  # fmt: skip


def _pass_wishes(own: NDArray[np.int64], other: NDArray[np.int64], played: Played) -> None:
    """Copy what a rule over the memory has written there beside its choice."""
    if isinstance(played.behaviour.policy, MemoryRule) and played.job.scenario.name == "queue":
        other[q.MAY_WAIT] = own[q.MAY_WAIT]
        if is_several(own):
            other[list(_WISHES)] = own[list(_WISHES)]


def _shown(judged: "list[_Judged]", chosen: tuple[int, int], n: int) -> list[int]:
    """Return the rows below n that are told, ascending."""
    if n <= MOST_SHOWN:
        return list(range(n))
    best = {row for row in chosen if row < n}
    for of in judged:
        if of.scores is not None:
            best |= set(np.argsort(-of.scores, kind="stable")[: MOST_SHOWN // 2].tolist())
    return sorted(best)


@dataclass(frozen=True)
class _Judged:
    """A state as a policy sees it: features of the N candidates, scores (N,), probabilities."""

    features: list[dict[str, float]]
    scores: NDArray[np.float64] | None
    probabilities: NDArray[np.float64] | None


class _Judge:
    """A policy that scores the states of an episode in which others may have chosen."""

    def __init__(self, played: Played) -> None:
        self.behaviour, self.spec = played.behaviour, played.job.spec
        self.policy: Any = played.behaviour.policy
        self.from_memory = isinstance(self.policy, MemoryRule)
        self.plans = isinstance(self.policy, Planner) and not self.from_memory
        self.observe = played.job.scenario.observe
        self.parameters = np.zeros(0)
        if isinstance(self.policy, Heuristic):
            rng = generator(
                played.job.recipe.seed, f"evaluate {self.behaviour.name}", played.window,
                played.seed,
            )  # fmt: skip
            self.parameters = self.policy.parameters(self.spec, rng)

    @property
    def tells(self) -> bool:
        """True if the policy can say what it would choose in any state."""
        return not self.plans

    def choice(self, episode: EpisodeArrays) -> int:
        """Return the row that the policy would choose, without a draw."""
        if self.from_memory:
            return int(self.policy.choose(episode.ints.copy(), episode.floats.copy()))
        n = self._count(episode)
        return int(best_feasible(self._scores(episode, n), episode.feasible[:n]))

    def judged(self, episode: EpisodeArrays, chosen: int) -> _Judged:
        """Return the candidates of an episode as the policy sees and scores them.

        `chosen` is the row that the policy chooses; N or more for a choice that no candidate shows.
        """
        n = self._count(episode)
        names = [feature.name for feature in self.spec.candidates]
        features = [dict(zip(names, row, strict=True)) for row in episode.candidates[:n].tolist()]
        if self.plans or self.from_memory:  # no scores, and all probability is on the choice
            return _Judged(features, None, np.eye(n)[chosen] if chosen < n else None)
        scores, probabilities = self._scores(episode, n), np.empty(n)
        fill_probabilities(
            scores, episode.feasible[:n], float(self.behaviour.temperature),
            float(self.behaviour.epsilon), probabilities,
        )  # fmt: skip
        return _Judged(features, scores, probabilities)

    def _count(self, episode: EpisodeArrays) -> int:
        return int(self.observe(*episode))

    def _scores(self, episode: EpisodeArrays, n: int) -> NDArray[np.float64]:
        """Return the scores of the first n candidates of an episode, (n,)."""
        if isinstance(self.policy, Heuristic):
            scores = np.empty(n)
            self.policy.score(
                episode.context, episode.candidates[:n], episode.feasible[:n], self.parameters,
                scores,
            )  # fmt: skip
            return scores
        shape = self.spec.image_shape
        return np.asarray(
            self.policy.scores(
                Observation(
                    float(episode.floats[k.TIME]), episode.context.copy(),
                    episode.candidates[:n].copy(), episode.feasible[:n].copy(),
                    episode.image.reshape(shape).copy() if shape else None,
                )
            ),
            np.float64,
        )  # fmt: skip


def _by_job(schedule: Schedule) -> dict[int, Came]:
    """Return what became of every job: its first start, and means over its parts."""
    jobs = schedule.jobs.group_by("job", maintain_order=True).agg(
        pl.col("start_s").min(),
        *(
            pl.when(pl.col(name).null_count() == 0).then(pl.col(name).mean()).alias(name)
            for name in ("wait_s", "bounded_slowdown")
        ),
        pl.col("machine").first(),
    )
    return {job: Came(*of) for job, *of in jobs.iter_rows()}


def _finite(value: Any) -> Any:
    """Return JSON values with None in place of infinities and NaN, lists in place of tuples."""
    if isinstance(value, dict):
        return {key: _finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(of) for of in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
