"""Reasons for the start of a job of a schedule: jobs that held resources or went before it.

All of it is counted in the schedule. A schedule does not say what a scheduler kept free for whom,
so the reasons name what was free, and which jobs waited and started meanwhile.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.schedules.sentences import moment, span

_MOST_NAMED: Final = 3  # jobs that a sentence names


@dataclass(frozen=True)
class Other:
    """Another job of the schedule."""

    job: int
    name: str | None
    processors: int
    start_s: float | None
    end_s: float | None


@dataclass(frozen=True)
class Reason:
    """Reason for the start of a job. Times are those of the schedule's clock.

    Attributes:
        job: Number of the job.
        name: What the log calls it; None if there is no log.
        asks: What it holds, by resource.
        since_s: Moment from which it waited: when it was eligible, or the beginning of the window.
        start_s: Its start; None if it did not start.
        until_s: Its start, or the end of the play.
        held: Processors that other jobs held at `since_s`, those that started then included.
        holders: The largest of the jobs that held them.
        ahead: Number of jobs that waited then and had come before it.
        behind: Number of jobs that waited then and had come later, or came while it waited.
        fits_s: First moment from which enough was free for it, beside all that had started; None
            if there was none before its start.
        fitting_s: How long enough was free in all, before its start.
        lacked_s: By resource, how long not enough of it was free; empty with several machines.
        overtaken: Number of jobs that came later and started before it.
        overtakers: The largest of them.
        waited_for: Of the jobs that had come before it and still waited at `fits_s`, the largest.
        ended: Jobs that ended at the moment of its start.
        sentences: The same in sentences.
    """

    job: int
    name: str | None
    asks: dict[str, int]
    since_s: float
    start_s: float | None
    until_s: float
    held: int
    holders: tuple[Other, ...]
    ahead: int
    behind: int
    fits_s: float | None
    fitting_s: float
    lacked_s: dict[str, float]
    overtaken: int
    overtakers: tuple[Other, ...]
    waited_for: Other | None
    ended: tuple[Other, ...]
    sentences: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the reason as JSON values."""
        return asdict(self)


def row_of(schedule: Schedule, job: str) -> dict[str, Any]:
    """Return the first row of a job by what the log calls it, or by its number.

    Raises InputError, which names the nearest, if there is no such job.
    """
    jobs = schedule.jobs.with_row_index("place")
    found = jobs.filter(pl.col("name") == job)
    if found.is_empty():
        found = jobs.filter(pl.col("job").cast(pl.String) == job)
    if jobs.is_empty():
        raise InputError("the schedule has no jobs")
    if found.is_empty():
        names = jobs["name"].drop_nulls().to_list() or list(map(str, jobs["job"].to_list()))
        near = difflib.get_close_matches(job, names, 1, 0.0)[0]
        raise InputError(f"no job {job!r} among the {jobs.height:,} of the schedule, as {near} is")
    return found.row(0, named=True)


def _pool_alone(schedule: Schedule, pool: int) -> Schedule:
    """Return the schedule of one pool, whose jobs do not compete with those of others."""
    of = {name: amounts[pool] for name, amounts in schedule.facts["machines"].items()}
    jobs = schedule.jobs.filter(pl.col("machine").list.first() == pool)
    return Schedule(jobs, {**schedule.facts, "capacity": of, "machines": {}, "machine": None})


def why(schedule: Schedule, job: str) -> Reason:
    """Return why a job started when it did, see `row_of` and Reason."""
    own = row_of(schedule, job)
    if schedule.facts["machine"] == "pool":
        schedule = _pool_alone(schedule, own["machine"][0])
        own = row_of(schedule, job)
    facts = schedule.facts
    others = schedule.jobs.with_row_index("place").filter(pl.col("place") != own["place"])
    since = max(own["eligible_s"], facts["from_s"])
    until = own["start_s"] if own["start_s"] is not None else max(facts["to_s"], since)
    asks = {name: own[name] for name in schedule.resources}
    ran = others.filter((pl.col("start_s") < until) & (pl.col("end_s") > since))
    holders = ran.filter((pl.col("start_s") <= since) & (pl.col("end_s") > since))
    # On a clock without seconds, a job without a start was refused.
    never = pl.col("start_s").is_null() & (facts["clock"] == "s")
    waiting = others.filter((pl.col("eligible_s") <= until) & (never | (pl.col("start_s") > since)))
    came_before = (pl.col("eligible_s") < own["eligible_s"]) | (
        (pl.col("eligible_s") == own["eligible_s"]) & (pl.col("place") < own["place"])
    )
    later = waiting.filter(~came_before)
    overtakers = later.filter(pl.col("start_s") < until)
    times, fits, lacking = _fitting(schedule, ran, asks, since, until)
    lengths = np.diff(np.append(times, until))
    fits_s = float(times[fits.argmax()]) if fits.any() else None
    blocked = None
    if fits_s is not None:
        still = waiting.filter(came_before & (never | (pl.col("start_s") > fits_s)))
        blocked = next(iter(_largest(still, 1)), None)
    found = Reason(
        job=own["job"], name=own["name"], asks=asks, since_s=since, start_s=own["start_s"],
        until_s=until, held=int(holders["processors"].sum()), holders=_largest(holders),
        ahead=waiting.filter(came_before & (pl.col("eligible_s") <= since)).height,
        behind=later.height, fits_s=fits_s, fitting_s=float(lengths[fits].sum()),
        lacked_s={name: float(lengths[of].sum()) for name, of in lacking.items() if of.any()},
        overtaken=overtakers.height, overtakers=_largest(overtakers), waited_for=blocked,
        ended=_largest(others.filter((pl.col("end_s") == until) & (own["start_s"] is not None))),
    )  # fmt: skip
    return Reason(**{**vars(found), "sentences": tuple(_sentences(found, facts))})


def _largest(jobs: pl.DataFrame, most: int = _MOST_NAMED) -> tuple[Other, ...]:
    """Return the jobs with most processors, the first ones of equals."""
    first = jobs.sort("processors", descending=True, maintain_order=True).head(most)
    columns = ("job", "name", "processors", "start_s", "end_s")
    return tuple(Other(**row) for row in first.select(columns).iter_rows(named=True))


def _fitting(
    schedule: Schedule, ran: pl.DataFrame, asks: Mapping[str, int], since: float, until: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
    """Return the moments (T,) at which what is held changes, and whether a job fits from each on.

    With it comes, for a single machine, by resource whether not enough of it was free.
    """
    levels = [at for steps in schedule.facts["levels"].values() for at, _amount in steps]
    changes = np.unique([since, *ran["start_s"], *ran["end_s"], *levels])
    times = changes[(changes >= since) & (changes < until)]
    if not len(times):
        return times, np.zeros(0, np.bool_), {}
    places: Sequence[int | None] = [None]
    machines = schedule.facts["machines"]
    if machines:
        places = range(len(machines["processors"]))
        ran = ran.explode("machine")
    fits, lacking = np.zeros(len(times), np.bool_), {}
    for place in places:
        here = ran if place is None else ran.filter(pl.col("machine") == place)
        enough = np.ones(len(times), np.bool_)
        for name, ask in asks.items():
            short = _free(schedule, here, name, place, times) < ask
            short &= ask > 0
            enough &= ~short
            if len(places) == 1:
                lacking[name] = short
        fits |= enough
    return times, fits, lacking


def _free(
    schedule: Schedule, ran: pl.DataFrame, name: str, place: int | None,
    times: NDArray[np.float64],
) -> NDArray[np.int64]:  # fmt: skip
    """Return what is free of a resource from moments on, (T,)."""
    facts = schedule.facts
    room = np.full(len(times), facts["capacity"][name])
    if place is not None:
        room[:] = facts["machines"][name][place]
    elif steps := facts["levels"].get(name):
        since, amounts = (np.array(column) for column in zip(*steps, strict=True))
        room = amounts[np.maximum(np.searchsorted(since, times, side="right") - 1, 0)]
    for column, sign in (("start_s", -1), ("end_s", 1)):
        of = ran.sort(column)
        total = np.concatenate([[0], np.cumsum(of[name].to_numpy())])
        room = room + sign * total[np.searchsorted(of[column].to_numpy(), times, side="right")]
    return room


def _sentences(found: Reason, facts: Mapping[str, Any]) -> list[str]:
    """Return why a job started when it did, in sentences."""
    unit, waited = facts["unit"], span(found.until_s - found.since_s, facts)
    what = f"Job {_called(found)} ({_with_unit(found.asks['processors'], facts)})"
    came = f"could start from {moment(found.since_s, facts)} on"
    if found.start_s is None and facts["clock"] != "s":
        return [f"{what} came at {moment(found.since_s, facts)} and was refused."]
    if found.start_s is None:
        said = f"had not started when the play stopped, {waited} later"
    elif found.start_s <= found.since_s:
        return [f"{what} {came} and started at once."]
    else:
        said = f"started at {moment(found.start_s, facts)}, {waited} later"
    told = [f"{what} {came} and {said}."]
    held = f"{_amount(found.held, facts)} of {_amount(facts['capacity']['processors'], facts)}"
    text = f"When it came, other jobs held {held} {unit}"
    if found.holders:
        most = 2 * sum(job.processors for job in found.holders) > found.held
        text += f", {'most' if most else 'the largest'} of them {_list(found.holders, facts)}"
    told.append(f"{text}. {found.ahead:,} of the waiting jobs had come before it.")
    lacks = " and ".join(f"{name} for {span(of, facts)}" for name, of in found.lacked_s.items())
    if found.fits_s is None:
        never = "At no moment before its start was enough free for it"
        told.append(f"{never}: it lacked {lacks}." if lacks else f"{never}.")
    else:
        if lacks:
            told.append(f"Not enough was free for it: {lacks}.")
        told.append(
            f"Enough was free first at {moment(found.fits_s, facts)}, in all for "
            f"{span(found.fitting_s, facts)}, and it was not started then."
        )
        if (job := found.waited_for) is not None:
            then = "had not started either at the end"
            if job.start_s is not None:
                then = f"started at {moment(job.start_s, facts)}"
            told.append(
                f"Then job {_called(job)} ({_with_unit(job.processors, facts)}), which had "
                f"come before it, still waited; that job {then}."
            )
    if found.overtaken:
        jobs = "1 job that came later" if found.overtaken == 1 else (
            f"{found.overtaken:,} jobs that came later"
        )  # fmt: skip
        told.append(f"{jobs} started before it, the largest {_list(found.overtakers, facts)}.")
    if found.ended:
        told.append(f"It started when {_list(found.ended, facts, ends=False)} ended.")
    return told


def _called(job: Reason | Other) -> str:
    return job.name if job.name is not None else str(job.job)


def _amount(parts: int, facts: Mapping[str, Any]) -> str:
    """Return an amount of processors in units."""
    return f"{parts / facts['per_unit']['processors']:,.10g}"


def _with_unit(parts: int, facts: Mapping[str, Any]) -> str:
    amount, unit = _amount(parts, facts), facts["unit"]
    return f"{amount} {unit.removesuffix('s') if amount == '1' else unit}"


def _list(jobs: Sequence[Other], facts: Mapping[str, Any], *, ends: bool = True) -> str:
    texts = [
        f"job {_called(job)} ({_amount(job.processors, facts)}"
        + (f" until {moment(job.end_s, facts)})" if ends and job.end_s is not None else ")")
        for job in jobs
    ]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def why_in_state(answer: Mapping[str, Any], job: str, where: str = "state") -> dict[str, Any]:
    """Return why a waiting job starts now, or does not.

    Args:
        answer: The answer of `hindcast decide` for a state, with the rows of all candidates.
        job: Id of the job, as text.
        where: What messages call the state.

    Returns:
        id, starts, rank of its score at the first decision and of how many, its processors, the
        free ones then (None with pools), and `sentences`.

    Raises:
        InputError: The job is none of the candidates.
    """
    at = [
        (decision, place, row)
        for decision in answer["decisions"]
        for place, row in enumerate(decision["rows"], 1)
        if str(row["id"]) == job
    ]
    for aside in answer.get("set_aside", ()):
        if str(aside["id"]) == job:
            return {"id": aside["id"], "starts": False,
                    "sentences": [f"Job {job} is set aside: {aside['reason']}."]}  # fmt: skip
    if not at:
        waiting = [str(row["id"]) for one in answer["decisions"][:1] for row in one["rows"]]
        known = did_you_mean(job, waiting) if waiting else "nothing can start now"
        raise InputError(f"{where}: job {job!r} is none of the candidates; {known}")
    first, rank, row = at[0]
    features, number = row["features"], row["id"]
    size = round(float(np.exp(features["log_processors"])))
    taken = next((one for one, _place, _row in at if one["choice"] == number), None)
    starts = taken is not None and taken["action"] == "start"
    count, best = len(first["rows"]), first["rows"][0]
    whole = round(size / features["share_of_machine"])
    free = None if _of_pool(features) else round(first["context"]["free"] * whole)
    need = f"Job {job} needs {size:,} of {whole:,} processors"
    if free is None:  # the context counts what is free in all pools
        told = [f"{need}, which are those of its pool."]
    else:
        told = [f"{need}; {free:,} are free."]
    rate = f"Its score of {row['score']:.6g} is number {rank} of {count}"
    told.append(rate + ("." if rank == 1 else f", behind job {best['id']} ({best['score']:.6g})."))
    if starts:
        told.append("It starts now.")
    elif taken is not None:
        told.append(f"It does not fit, and the machine is kept free for it{_until(answer)}.")
    else:
        told += _not_now(answer, at[-1][2]["features"], size)
    return {"id": number, "starts": starts, "rank": rank, "of": count, "processors": size,
            "free": free, "sentences": told}  # fmt: skip


def _not_now(answer: Mapping[str, Any], features: Mapping[str, float], size: int) -> list[str]:
    """Return why a job that was not chosen does not start; features are its last ones."""
    decision, head = answer["decisions"][-1], answer["reservation"]
    if _of_pool(features):
        if features["fits"] == 0:
            return ["It does not fit in its pool."]
        return [(
            f"It fits, but would delay {_heads(head)}, for which room is kept{_until(answer)}, or "
            "the jobs that start now take what it needs."
        )]  # fmt: skip
    left = round(decision["context"]["free"] * size / features["share_of_machine"])
    if decision["action"] == "start":
        of = next(row for row in decision["rows"] if row["id"] == decision["choice"])
        left -= round(float(np.exp(of["features"]["log_processors"])))
    if size > left:
        soonest = span(round(float(np.expm1(features["start_in"]))), {"clock": "s"})
        told = f"Left beside the jobs that run and start now: {count_of(left, 'processor')}."
        return [told, *(
            [f"By the requested times, it would fit in {soonest} if it held the reservation."]
            if features["fits"] == 0 else []
        )]  # fmt: skip
    if head is None:
        return ["It fits, and the policy waits."]
    if features["fits"] == 0:
        return ["Processors are free, but not enough of another resource that it asks for."]
    if isinstance(head, list) or isinstance(head["spare"], dict):
        return [f"It fits, but would delay {_heads(head)}, for which room is kept{_until(answer)}."]
    requested = span(round(float(np.exp(features["log_requested"]))), {"clock": "s"})
    spare = count_of(head["spare"], "processor")
    return [(
        f"It fits, but it requests {requested}, past the start of job {head['id']} that is planned "
        f"for {head['start']}; spare beside that job: {spare}."
    )]  # fmt: skip


def _of_pool(features: Mapping[str, float]) -> bool:
    """Return whether the job is one of a pool: rows have the reservation of their pool then."""
    return "shadow_in" in features


def _heads(head: Any) -> str:
    heads = head if isinstance(head, list) else [head]
    return ", ".join(f"job {one['id']}" for one in heads if one) or "others"


def _until(answer: Mapping[str, Any]) -> str:
    head = answer["reservation"]
    starts = [one["start"] for one in (head if isinstance(head, list) else [head]) if one]
    known = [str(start) for start in starts if start is not None]
    return f" until {', '.join(known)}" if known else ""
