"""Material of the page of `hindcast whatif`, and the policies with a part on it.

Everything that a command did not compute is None or empty, and the page goes without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import polars as pl

from hindcast.pipeline.report.whatif.jobs import recorded
from hindcast.pipeline.report.whatif.numbers import HEADLINE, WAIT, Scope, difference_of
from hindcast.pipeline.report.whatif.plan import Plan
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.whatif import verdict as v
from hindcast.pipeline.whatif.closed import Closed
from hindcast.pipeline.whatif.grade import NO_GRADE, Grade
from hindcast.pipeline.whatif.predictable import Explained, meaning
from hindcast.pipeline.whatif.replay import Replay
from hindcast.pipeline.whatif.resources.amounts import Resources
from hindcast.pipeline.whatif.shakes import Shaken
from hindcast.pipeline.workloads.caveats import NO_LIMITS, Caveat
from hindcast.pipeline.workloads.log_caveats import DISQUALIFYING
from hindcast.pipeline.workloads.schema import Provenance

RECORDED: Final = v.RECORDED
THE_LOG: Final = "the log"  # what was recorded, in tables and plots
KNOWING: Final = "knows run times"
LEARNED: Final = "learned"
COLUMNS: Final = {HEADLINE: "bounded_slowdown", WAIT: "wait_s"}  # of frames of jobs


@dataclass(frozen=True)
class Material:
    """Everything that the page is made of.

    Attributes:
        name: Name of the log.
        format: Its format.
        settings: Settings of its reader.
        provenance: Its source, and the rows that were left out.
        processors: Processors of the machine.
        plan: How the log is split.
        kinds: Kind of every policy: "heuristic", "learned", "knows run times", "recorded".
        descriptions: A sentence about every policy.
        run: Values in the run.
        windows: Values on the windows, or None.
        before: Values on the log before the run, by which the candidate is chosen, or None.
        jobs: The J counted jobs of the run, see `hindcast.pipeline.report.whatif.jobs`.
        played: wait_s (of the user) and bounded_slowdown of these jobs by policy.
        grade: Grade of the machine; None without record.
        replay: Replay of the record; None without record.
        shaken: Values of the run by shake, for every policy that was shaken.
        changes: Changed worlds with the columns of changes.csv, or None.
        advice: What to change, see `hindcast.pipeline.whatif.batch_systems.advice`, or None.
        without_advice: Why settings are missing in it.
        predictable: What completed runs explain of later ones, or None.
        caveats: Facts about the log that limit every conclusion.
        missing: Sentences about fields that the log lacks.
        delivered: What the gate of each agent's training delivered: "agent" or "rule"; "" for an
            agent without a gate.
        training: What a training did, or None.
        names: Names of partitions, QOS, accounts, queues and users by column and number.
        epoch_s: Unix time of second 0 of the log's clock, or None.
        mine: What the scheduler of --mine is, in words; "" without one.
        commands: Command that gives each table, by its name.
        command: The command line.
        resources: Resources of the machines together; None for processors alone.
        whole_nodes: Share of the GPU-seconds by jobs with four or more GPUs on a node, or None.
        bounds: Lower bounds of the means of the run, and of its mean wait by resource.
        schedules: Schedules of the run that are drawn, by policy, see `drawn`.
    """

    name: str
    format: str
    settings: Mapping[str, Any]
    provenance: Provenance
    processors: int
    plan: Plan
    kinds: Mapping[str, str]
    descriptions: Mapping[str, str]
    run: Scope
    windows: Scope | None
    before: Scope | None
    jobs: pl.DataFrame
    played: Mapping[str, pl.DataFrame]
    grade: Grade | None = None
    replay: Replay | None = None
    shaken: Mapping[str, Shaken] = field(default_factory=dict)
    changes: pl.DataFrame | None = None
    advice: pl.DataFrame | None = None
    without_advice: tuple[str, ...] = ()
    predictable: Explained | None = None
    caveats: tuple[Caveat, ...] = ()
    missing: tuple[str, ...] = ()
    delivered: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] | None = None
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    epoch_s: float | None = None
    mine: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    resources: Resources | None = None
    whole_nodes: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """Share of the run times that completed runs explain, in words."""
        return "" if self.predictable is None else meaning(self.predictable)

    @property
    def known(self) -> str:
        """The policy by which the log is served, "" if no known order explains it."""
        return policy_of(self.grade.known or "") if self.grade else ""

    @property
    def letter(self) -> str:
        """The grade, "" without record."""
        return self.grade.letter if self.grade else ""

    @property
    def closed(self) -> tuple[Closed, ...]:
        """Closed times of the record within the run, in which simulated policies start jobs."""
        jobs = self.jobs.filter(~pl.col("carried"))
        jobs = self.jobs if jobs.is_empty() else jobs
        begin, end = jobs["arrive_s"].to_numpy().min(), jobs["submit_s"].to_numpy().max()
        times = self.grade.closed if self.grade else ()
        return tuple(time for time in times if time.end > begin and time.begin < end)

    @property
    def letter_of_run(self) -> str:
        """The grade of what is compared: with closed times in the run, that of the whole record."""
        if self.grade is None or not self.closed or self.letter == NO_GRADE:
            return self.letter
        return max(self.letter, *self.grade.letters.values())

    @property
    def comparable(self) -> bool:
        """True if the machine is near enough for the record to stand beside policies."""
        return self.letter_of_run not in {"C", "D"}

    @property
    def near(self) -> bool:
        """True if differences to the record can be read as those to the log's scheduler."""
        return self.letter_of_run in {"A", "B"} and not self.disqualifiers

    @property
    def disqualifiers(self) -> tuple[Caveat, ...]:
        """Caveats that forbid a conclusion, also about the jobs of the run."""
        found = [
            replace(of, text=f"{of.text.rstrip('.')}; what would mend it: {DISQUALIFYING[of.code]}")
            for of in self.caveats
            if of.code in DISQUALIFYING
        ]
        if self.span_s <= 0:
            text = "the jobs of the run came within 0 s, which is no time to compare schedulers in"
            text += "; what would mend it: a log of weeks"
            found.append(Caveat("no_span", text, {"span_s": 0.0}))
        return tuple(found)

    @property
    def partitions(self) -> int:
        """Number of partitions that the jobs of the run name."""
        return self.jobs["partition"].drop_nulls().n_unique()

    @property
    def span_s(self) -> float:
        """Seconds from the beginning of the run to its last submission."""
        submit = self.jobs.filter(~pl.col("carried"))["submit_s"].to_numpy()
        return float(submit.max() - submit.min()) if len(submit) else 0.0

    @cached_property
    def cast(self) -> "Cast":
        """The policies with a part on the page."""
        return _cast_of(self)

    @property
    def drawn(self) -> list[str]:
        """The policies that stand beside each other in pictures, the present one first.

        On a machine that is not the log's, a rule beside the record would say nothing of the rule.
        """
        recorded = self.cast.recorded if self.comparable else None
        return list(dict.fromkeys([recorded or self.cast.aside, self.cast.candidate]))

    @cached_property
    def identical(self) -> tuple[tuple[str, ...], ...]:
        """Policies that start every job of the run in the same second, two or more each."""
        found: dict[bytes, list[str]] = {}
        for name, frame in self.played.items():
            found.setdefault(frame["wait_s"].fill_null(-1.0).to_numpy().tobytes(), []).append(name)
        return tuple(tuple(names) for names in found.values() if len(names) > 1)

    @property
    def knowing(self) -> frozenset[str]:
        """Policies that know run times: by their kind, or since the log lacks requested times."""
        kinds = self.kinds.items()
        found = {name for name, kind in kinds if kind == KNOWING}
        if any(caveat.code == NO_LIMITS for caveat in self.disqualifiers):
            found |= {name for name, kind in kinds if kind != RECORDED and name != "fcfs"}
        return frozenset(found)


@dataclass(frozen=True)
class Cast:
    """Policies with a part on the page.

    Attributes:
        recorded: The log's scheduler; None if the log does not say when jobs started.
        plain: EASY with the order of arrival, or the first rule if that was not played.
        candidate: The rule or delivered agent that was best before the run.
        before: Whether it was chosen before the run, not after the fact.
        aside: A rule to compare it with on the simulated machine: `plain`, or the second best.
        agent: The delivered agent that was best before the run; None if none was delivered.
        best_run: The rule that was best in the run, after the fact.
        best_windows: The rule that was best on the windows, after the fact.
    """

    recorded: str | None
    plain: str
    candidate: str
    before: bool
    aside: str
    agent: str | None
    best_run: str
    best_windows: str | None

    def shown(self, known: str, played: Sequence[str] | Mapping[str, Any]) -> list[str]:
        """Return the policies in tables with few columns, the known scheduler among them."""
        names = (self.recorded, known, self.plain, self.candidate, self.best_run, self.agent)
        return list(dict.fromkeys(name for name in names if name and name in played))


def policy_of(name: str) -> str:
    """Return the policy that plays an order and a mode: `saf easy` is saf_easy."""
    order, _, mode = name.partition(" ")
    if (order, mode) == ("fcfs", "all"):
        return "conservative"
    return order if order == "mine" or not mode or mode == "none" else f"{order}_{mode}"


def kind_of(material: Material, name: str) -> v.Kind:
    """Return the kind of a policy as the verdict knows it."""
    if material.kinds[name] == KNOWING:
        return "knows run times"
    if material.kinds[name] == LEARNED:
        return "agent" if material.delivered.get(name) == "agent" else "refused agent"
    return "rule"


def _cast_of(material: Material) -> Cast:
    run, windows = material.run, material.windows
    kinds = {name: kind_of(material, name) for name in run.values}
    rules = [name for name, kind in kinds.items() if kind == "rule" and name != RECORDED]
    rules = rules or [name for name in kinds if name != RECORDED]
    before = material.before
    chosen = before or run
    means = {name: chosen.value(name) for name in chosen.values if name in run.values}
    candidate = v.choose(means, kinds) or rules[0]
    agents = {name: mean for name, mean in means.items() if kinds[name] == "agent"}
    plain = "fcfs_easy" if "fcfs_easy" in run.values else rules[0]
    others = {name: mean for name, mean in means.items() if name in rules and name != candidate}
    aside = plain if plain != candidate else min(others, key=others.__getitem__, default=plain)
    return Cast(
        recorded=RECORDED if RECORDED in run.values else None,
        plain=plain,
        candidate=candidate,
        before=before is not None,
        aside=aside,
        agent=min(agents, key=agents.__getitem__, default=None),
        best_run=min(rules, key=run.value),
        best_windows=None
        if windows is None
        else min(
            (name for name in rules if name in windows.values), key=windows.value, default=None
        ),
    )


def evidence_of(material: Material, failing: str) -> v.Evidence:
    """Return what the verdict needs to know about the candidate and the log's scheduler.

    `failing` are the measurements behind a grade below B, in words.
    """
    cast, run, windows = material.cast, material.run, material.windows
    opponent = cast.recorded or cast.aside
    differences = [
        difference_of(scope, name, cast.candidate, opponent)
        for scope, name in ((run, "run"), (windows, "windows"))
    ]
    assert differences[0] is not None
    ratios = {}
    for metric in v.PRICES:
        theirs = run.value(opponent, metric)
        if theirs > 0:
            ratios[metric] = run.value(cast.candidate, metric) / theirs
    return v.Evidence(
        policy=cast.candidate,
        kind=kind_of(material, cast.candidate),
        opponent=opponent,
        run=differences[0],
        windows=differences[1],
        shake_sd=v.difference_sd(
            {name: of.slowdown for name, of in material.shaken.items()},
            cast.candidate,
            opponent,
            material.known,
        ),
        letter=material.letter_of_run,
        failing=failing,
        disqualifiers=material.disqualifiers,
        known=material.known,
        ratios=ratios,
        jobs=material.plan.log_jobs,
        without_wait=material.grade.at_once if material.grade else 0.0,
        mean_wait_s=material.grade.mean_wait_s if material.grade else 0.0,
        replay_error=_replay_error(material),
        before=cast.before,
        aside=difference_of(run, "run", cast.candidate, cast.aside),
        aside_name=cast.aside,
        machine="number of processors"
        if material.resources is None
        else "number of processors, GPUs and memory",
    )


def _replay_error(material: Material) -> float:
    """Return the largest relative error of the replay's mean wait and slowdown."""
    frame = material.played.get(RECORDED)
    if frame is None:
        return 0.0
    known = material.jobs["recorded_wait_s"].is_not_null()
    errors = []
    for metric, theirs in log_means(material).items():
        mine = mean_of(frame.filter(known)[COLUMNS[metric]])
        errors.append(abs(mine / theirs - 1) if theirs else float(mine > 0))
    return max(errors)


def log_means(material: Material) -> dict[str, float]:
    """Return mean bounded slowdown and wait in s of the jobs of the run, as the log has them."""
    of = recorded(material.jobs)
    return {metric: mean_of(of[name]) for metric, name in COLUMNS.items()}


def scheduler_wait(jobs: pl.DataFrame) -> float:
    """Return the mean recorded wait in s from the moment at which the scheduler could start."""
    return mean_of(jobs["recorded_wait_s"] - jobs["held_s"])


def mean_of(series: pl.Series) -> float:
    """Return the mean of the known values, 0 without any."""
    known = series.drop_nulls().to_numpy()
    return float(known.mean()) if len(known) else 0.0
