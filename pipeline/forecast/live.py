"""Forecasts for the waiting jobs of a real machine, whose state is that of `hindcast decide`.

Run times and arrivals come from a log of the machine. The users of a state are those of the log
whose numbers they have. The clock of a state is that of the log, or seconds since 1970 if the log
says when it began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.forecast.calibration import FEWEST, INTERVALS, calibrated, quantiles_of
from hindcast.pipeline.forecast.forecasts import (
    Forecasts,
    Policy,
    earlier_jobs,
    forecast,
    forecasts_of,
    plan,
)
from hindcast.pipeline.forecast.plays import (
    DAY_S,
    DRAWS,
    HORIZON_S,
    OF_JOB,
    WEEK_S,
    Past,
    with_all_histories,
)
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import usable
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.scenarios.queue.live_fields import WAITING
from hindcast.pipeline.scenarios.queue.live_state import read_moment, set_aside
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.run import Past as Completed
from hindcast.pipeline.whatif.run import Run, log_of
from hindcast.pipeline.whatif.waiting import OF_USER, PREDICTS_FROM
from hindcast.pipeline.workloads.schema import Workload

_LATE_S: Final = 60 * DAY_S  # a state may be so long after the end of the log
_PURPOSE: Final = "start"
_MIDDLE: Final = 3  # place of the median among the levels
_NEW: Final = ("processors", "requested", "user")


def users_of(workload: Workload) -> dict[str, int]:
    """Return the numbers that a record gives the users of a log, by their numbers in the log."""
    tasks = workload.tasks.filter(usable(workload))
    if "user" not in tasks.columns:
        return {}
    users = tasks["user"].drop_nulls().unique().sort()
    return {str(user): place for place, user in enumerate(users.to_list())}


def parse_job(text: str) -> dict[str, Any]:
    """Return a job that could be submitted, written processors=8,requested=3600,user=12."""
    job: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals:
            raise InputError(f"--job {text!r}: expected processors=N,requested=SECONDS,user=NAME")
        if key not in _NEW:
            raise unknown_name("key of --job", key, _NEW)
        job[key] = int(value) if value.strip().isdecimal() else value
    for key in _NEW[:2]:
        limits = WAITING[key]
        assert limits is not None
        number = job.get(key)
        if type(number) is not int or not limits.low <= number <= limits.high:
            raise InputError(
                f"--job {text!r}: expected {key}= with a whole number of {limits.unit} from "
                f"{limits.low:,} to {limits.high:,}"
            )
    return job


@dataclass(frozen=True)
class Starts:
    """Things that forecasts of a rule need beside a state.

    Attributes:
        past: The log, from whose runs and arrivals plays draw.
        policy: The rule.
        users: Numbers of the users by name, see `users_of`.
        schedule: The log with the starts that forecasts are calibrated on.
        second_zero: Second 0 of the log in seconds since 1970, None if it is unknown.
        is_recorded: Whether these are the log's own starts, not those of the rule.
        seed: Seed of the draws.
        draws: Number of draws.
        earlier: Forecasts to calibrate on, by the moment before which they were made.
    """

    past: Past
    policy: Policy
    users: Mapping[str, int]
    schedule: Past
    second_zero: int | None
    is_recorded: bool = False
    seed: int = 0
    draws: int = DRAWS
    earlier: dict[int, Forecasts] = field(default_factory=dict)

    def calibration(self, at: int) -> Forecasts:
        """Return forecasts to calibrate on; they serve the states of the week that follows."""
        for made, found in self.earlier.items():
            if made <= at < made + WEEK_S:
                return found
        jobs = earlier_jobs(self.schedule, at, generator(self.seed, _PURPOSE))
        found = forecasts_of(
            self.schedule, self.policy, jobs, self.seed, names=("draws",), draws=self.draws
        )
        self.earlier[at] = found
        return found

    def answer(
        self, state: Any, *, more: Sequence[Mapping[str, Any]] = (), at: int | None = None,
        where: str = "state",
    ) -> dict[str, Any]:  # fmt: skip
        """Return when the waiting jobs of a state start.

        Args:
            state: The state, as json.loads returns it.
            more: Jobs that could be submitted, each one alone; see `parse_job`.
            at: The moment of the state on the clock of the log; None: found by its clock.
            where: File and line, for messages.

        Returns:
            now, rule, schedule ("simulated" or "recorded"), calibrated_on (number of forecasts of
            this schedule; with 0 the intervals are those of the draws), jobs, and set_aside if
            there are any. A job has its id, submitted, the interval
            of its start by %, its median, and its start by requested times (requested,
            reservation), on the clock of the state. None stands for later than 14 days.

        Raises:
            InputError: The state is not valid.
        """
        state, aside = set_aside(state)
        read_moment(state, QueueConfig(), where)
        if at is None:
            at = self._at(state["now"], where)
        waiting, jobs = state["waiting"], list[dict[str, Any]]()
        if waiting:
            jobs += self._jobs(state, at, len(waiting))
        for number, job in enumerate(more, 1):
            new = {"id": f"job {number}", "submitted": state["now"], **job}
            read_moment({**state, "waiting": [new], "reservation": None}, QueueConfig(), "--job")
            jobs += self._jobs({**state, "waiting": [*waiting, new]}, at, 1)
        found = {"id": state["id"]} if "id" in state else {}
        started = int((self.calibration(at).start <= at).sum())
        found |= {
            "now": state["now"], "rule": self.policy[0].name,
            "schedule": "recorded" if self.is_recorded else "simulated",
            "calibrated_on": started if started >= FEWEST else 0, "jobs": jobs,
        }  # fmt: skip
        return found | ({"set_aside": aside} if aside else {})

    def _at(self, now: int, where: str) -> int:
        """Return a moment of a state on the clock of the log."""
        record = self.past.record
        first, last = self.past.first, int(record.arrive[-1]) + _LATE_S
        zero = self.second_zero or 0
        for moment in (now, now - zero):
            if first <= moment <= last:
                return moment
        since = f", or {first + zero:,} to {last + zero:,} since 1970" if zero else ""
        raise InputError(
            f"{where}: now is {now}, expected a moment on the clock of the log, {first:,} to "
            f"{last:,} s (60 days after its last job){since}; --at gives the moment of the state"
        )

    def _moment(self, state: Mapping[str, Any], at: int) -> Run:
        """Return the moment of a valid state."""
        running, waiting = state.get("running") or [], state["waiting"]
        jobs, size, shift = [*running, *waiting], len(running), at - state["now"]
        users = self._users([*jobs, *(state.get("completed") or [])])

        def column(name: str) -> Array:
            return np.array([job[name] for job in jobs], np.int64)

        came = [job["started"] for job in running] + [job["submitted"] for job in waiting]
        arrive = np.array(came, np.int64) + shift
        start = np.where(np.arange(len(jobs)) < size, arrive, NEVER)
        number = np.array([users[str(job.get("user"))] for job in jobs], np.int64)
        nobody = np.full(int(self.past.record.key.max(initial=-1)) + 2, -1)
        columns = {name: np.full(len(jobs), -1) for name in OF_JOB} | {
            "submit": arrive, "arrive": arrive, "cpu": column("processors"), "start": start,
            "requested": column("requested"), "run": column("requested"), "user": number,
            "key": np.where(number < 0, -1, len(nobody) - 1),
        }  # fmt: skip
        count = max([len(self.users), *(user + 1 for user in users.values())])
        moment = Run(
            processors=state["processors"], now=at, running=size, row=np.arange(len(jobs)),
            counted=start == NEVER, chain=np.full(len(jobs), -1), last=np.full(count, -1),
            before=np.full(count, -1), similar=nobody,
            past=Completed(log_of(self.past.record), at), **columns,
        )  # fmt: skip
        if PREDICTS_FROM.get(self.policy[0].rule) != OF_USER:
            return moment
        return _with_completed(self.past, moment, state.get("completed"), users)

    def _users(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Return the numbers of users by name; those that the log does not have come behind."""
        users = {"None": -1}
        for job in jobs:
            name = str(job.get("user"))
            if name not in users:
                new = len(self.users) + sum(one not in self.users for one in users) - 1
                users[name] = self.users.get(name, new)
        return users

    def _jobs(self, state: Mapping[str, Any], at: int, count: int) -> list[dict[str, Any]]:
        """Return the answer about the last waiting jobs of a valid state."""
        moment, free, now = self._moment(state, at), state.get("free"), state["now"]
        jobs = np.arange(len(moment.row) - count, len(moment.row))
        rng = generator(self.seed, _PURPOSE, at % (1 << 32))
        waits = forecast(self.past, moment, self.policy, jobs, rng, draws=self.draws, free=free)
        planned = plan(self.past, moment, self.policy, jobs, free=free)
        raw = quantiles_of(waits)
        moved = calibrated(raw, self.calibration(at).shifts("draws", at))

        def moment_of_state(wait: float) -> int | None:
            return None if wait >= HORIZON_S else int(now + round(wait))

        found = []
        for place, job in enumerate(state["waiting"][-count:]):
            # Under the rule, a start at this moment does not depend on the draws.
            at_once = not waits[:, place].any() and not self.is_recorded
            values = list(map(moment_of_state, (raw if at_once else moved)[place].tolist()))
            of_job = {"id": job["id"], "submitted": job["submitted"], "median": values[_MIDDLE]}
            of_job |= {str(one): [values[low], values[high]]
                       for one, (low, high) in INTERVALS.items()}  # fmt: skip
            found.append(of_job | {key: moment_of_state(float(of[place]))
                                   for key, of in planned.items()})  # fmt: skip
        return found


def _with_completed(
    past: Past, moment: Run, completed: Sequence[Mapping[str, Any]] | None,
    users: Mapping[str, int],
) -> Run:  # fmt: skip
    """Return a moment with histories: those of the log, and of the state for its users."""
    record, here = past.record, with_all_histories(past, moment)
    keys = _keys(record, moment)
    last, before = (
        np.concatenate([of, np.full(max(len(moment.last) - len(of), 0), -1)])
        for of in (here.last, here.before)
    )
    similar = np.concatenate([here.similar, np.full(len(keys), -1)])
    number = {triple: len(here.similar) + i for i, triple in enumerate(keys)}
    known = {triple: key for triple, key in keys.items() if key >= 0}
    triples = list(zip(*(of.tolist() for of in (moment.user, moment.cpu, moment.requested)),
                       strict=True))  # fmt: skip
    key = [-1 if one[0] < 0 else known.get(one, number[one]) for one in triples]
    if completed is not None:
        of_state = np.unique(moment.user[moment.user >= 0])
        last[of_state] = before[of_state] = similar[[k for k in key if k >= 0]] = -1
        for run in completed:
            user = users[str(run.get("user"))]
            if user < 0:
                continue
            before[user], last[user] = last[user], run["run"]
            triple = (user, run.get("processors"), run.get("requested"))
            if triple in number:
                similar[known.get(triple, number[triple])] = run["run"]
    return replace(moment, key=np.array(key, np.int64), last=last, before=before, similar=similar)


def _keys(record: Record, moment: Run) -> dict[tuple[int, int, int], int]:
    """Return the key in the record of every triple of a moment, -1 where it has none."""
    wanted = set(zip(*(of.tolist() for of in (moment.user, moment.cpu, moment.requested)),
                     strict=True))  # fmt: skip
    first = np.unique(record.key, return_index=True)[1]
    rows = zip(*(of[first].tolist() for of in (record.user, record.cpu, record.requested,
                                               record.key)), strict=True)  # fmt: skip
    found = {row[:3]: row[3] for row in rows if row[:3] in wanted}
    return {triple: found.get(triple, -1) for triple in sorted(wanted)}
