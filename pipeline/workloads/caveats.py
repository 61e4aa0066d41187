"""Caveats: facts about a trace, a problem or its windows that limit a result.

A caveat is no error: the command does its work, and prints the caveat as a warning. Datasets and
evaluations keep their caveats, so that cards and reports show them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.storage.json_values import a_list, a_table, a_text
from hindcast.pipeline.workloads.schema import Provenance

# A window is tied if half of the rules share its best score. Rules that wait on purpose, or that
# are bad on purpose, differ even where nothing competes, so that fewer than all rules must count.
# Of the shipped recipes, thermal-paper-v1 alone has so many ties, 5 of 9 rules on every window; its
# description says that there is next to nothing to learn.
TIED_RULES: Final = 0.5
# On more than half of the windows: a mean then says more about ties than about rules.
TIED_WINDOWS: Final = 0.5
FEWEST_RULES: Final = 3  # with two rules, one of them always has the best score
# With fewer decisions that leave a choice, a log teaches little and policies hardly differ.
FORCED: Final = 0.9
# Rounding is part of the problem; the shipped recipes change the work by 26 % at most. From one
# half on, the load of the simulation is another one than that of the trace.
ROUNDING: Final = 0.5
# Below a quarter, the windows are a section of the trace, with its own hours or days.
TRACE_USED: Final = 0.25
# Outcomes of a window count unfinished jobs as if they had ended with it. Above a twentieth, this
# counts more than the differences between good rules.
UNFINISHED: Final = 0.05

# Notes of the readers of traces that decide what a result means. Other readers, for example those
# of plug-ins, begin such a note with CAUTION.
CAUTION: Final = "caution: "
TIES: Final = "ties"  # code of the caveat of `ties`
NO_WAIT: Final = "no wait time is known"
NO_SIZE: Final = "the header names no MaxProcs"
SIZE_GUESSED: Final = "the log does not say how many processors"
NO_REQUESTS: Final = (
    "no time limit is known: requested_s is the run time, so that rules that read it know how long "
    "jobs run"
)
RUNS_DIFFER: Final = "run times are far from end - start"
RUNS_AND_ENDS: Final = "runs_differ_from_ends"
NO_WAIT_TIMES: Final = "no_wait_times"
NO_CLUSTER_SIZE: Final = "no_cluster_size"
NO_LIMITS: Final = "requests_are_run_times"
NOTES: Final[Mapping[str, str]] = {  # beginning of a note -> code of its caveat
    NO_WAIT: NO_WAIT_TIMES, NO_SIZE: NO_CLUSTER_SIZE, SIZE_GUESSED: NO_CLUSTER_SIZE,
    NO_REQUESTS: NO_LIMITS, RUNS_DIFFER: RUNS_AND_ENDS,
}  # fmt: skip
GPUS_ARE_CORES: Final = "the GPUs of a job are its processors, so that jobs compete for them"
NO_ZONE: Final = "times without an offset from UTC are read as UTC"  # no caveat by itself

# Outcomes that count jobs of a window that did not end with it.
_OPEN: Final = ("unfinished", "dropped", "left_out", "waiting_at_end")


@dataclass(frozen=True)
class Caveat:
    """A fact that limits a result.

    Attributes:
        code: Its kind, one word for programs.
        text: The fact, and what it means for the result, as one or two sentences.
        numbers: The measured numbers behind it.
    """

    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def to_json(caveats: Iterable[Caveat]) -> list[dict[str, Any]]:
    """Return caveats as JSON; numbers are floats, so that reading and writing keeps the text."""
    return [
        {"code": c.code, "text": c.text, "numbers": {k: float(v) for k, v in c.numbers.items()}}
        for c in caveats
    ]


def from_json(value: Any) -> tuple[Caveat, ...]:
    """Invert `to_json`; raise KeyError, TypeError or ValueError if the value is damaged."""

    def a_number(number: Any) -> float:
        if type(number) is not float or not math.isfinite(number):
            raise ValueError(f"{str(number)[:40]!r} is no number of a caveat")
        return number

    return tuple(
        Caveat(
            a_text(entry["code"]),
            a_text(entry["text"]),
            {name: a_number(number) for name, number in a_table(entry["numbers"]).items()},
        )
        for entry in map(a_table, a_list(value))
    )


def of_provenance(provenance: Provenance) -> tuple[Caveat, ...]:
    """Return the caveats among the notes that the reader of a trace left.

    They are the notes that begin as one of NOTES does, which has their code, or with CAUTION.
    """
    of_notes = []
    for note in provenance.notes:
        text = note.removeprefix(CAUTION)
        codes = (code for begin, code in NOTES.items() if text.startswith(begin))
        code = next(codes, "caution" if note.startswith(CAUTION) else None)
        if code is not None:
            of_notes.append(Caveat(code, text))
    return tuple(of_notes)


def ties(scores: NDArray[np.float64], *, higher: bool) -> tuple[Caveat, ...]:
    """Return a caveat if half of the rules share the best score on most windows.

    `scores` (R, W) are those of R rules without exploration on W windows; `higher` says that larger
    ones are better. Fewer than FEWEST_RULES rules, and values that are not finite, say nothing.
    """
    scores = scores[:, np.isfinite(scores).all(axis=0)]
    rules, windows = scores.shape
    if rules < FEWEST_RULES or not windows:
        return ()
    best = scores.max(axis=0) if higher else scores.min(axis=0)
    shares = np.isclose(scores, best, rtol=1e-9, atol=1e-12).mean(axis=0)
    tied = int((shares >= TIED_RULES - 1e-9).sum())
    if tied <= TIED_WINDOWS * windows:
        return ()
    text = (
        f"on {tied:,} of {windows:,} windows, at least half of the {rules} rules share the best "
        "score: these windows hardly tell policies apart, usually since few jobs compete. Offer "
        "more load: more jobs in a window, a smaller cluster, or shorter time steps."
    )
    return (Caveat(TIES, text, {"tied_windows": tied, "windows": windows, "rules": rules}),)


def forced(decisions: int, forced: int) -> tuple[Caveat, ...]:
    """Return a caveat if few decisions had more than one feasible candidate."""
    if not decisions or forced < FORCED * decisions:
        return ()
    text = (
        f"{share_text(forced / decisions)} of {decisions:,} decisions had one feasible candidate "
        "only: the log holds few choices to learn from."
    )
    return (Caveat("forced", text, {"forced": forced, "decisions": decisions}),)


def unfinished(policies: Sequence[tuple[str, Mapping[str, float]]]) -> tuple[Caveat, ...]:
    """Return a caveat if every policy leaves many jobs, or cuts off many episodes.

    A policy is its name and its mean outcomes, with `truncated`. The shares are those of the policy
    that leaves the fewest, since leaving jobs can be the fault of a policy.
    """
    least: tuple[float, float, str] | None = None
    for name, outcomes in policies:
        open_jobs = sum(outcomes.get(key, 0.0) for key in _OPEN)
        entered = outcomes.get("jobs", 0.0)
        jobs = entered + outcomes.get("left_out", 0.0)
        shares = (open_jobs / jobs if entered > 0 else 0.0, outcomes.get("truncated", 0.0), name)
        least = shares if least is None else min(least, shares)
    if least is None or max(least[:2]) < UNFINISHED:
        return ()
    share, cut, name = least
    facts = (
        [f"{share_text(share)} of the jobs are unfinished, dropped or left out"] if share else []
    )
    facts += [f"{share_text(cut)} of the episodes are cut off before their end"] if cut else []
    text = (
        f"under every policy many jobs remain at the end of a window; under {name}, "
        f"{' and '.join(facts)}. Outcomes count such jobs as if they had ended there. Raise the "
        "limit of the episode, or offer less load."
    )
    return (Caveat("unfinished", text, {"jobs_left": share, "truncated": cut}),)


def rounding(work: float, rounded: float) -> tuple[Caveat, ...]:
    """Return a caveat if rounding to slots and time steps changes the work of the jobs much."""
    if work <= 0 or abs(rounded / work - 1) < ROUNDING:
        return ()
    text = (
        f"rounding to whole slots and time steps makes the jobs' work {rounded / work:.3g} times "
        "that of the trace, so that the load is not the trace's. Take shorter time steps or finer "
        "slots."
    )
    return (Caveat("rounding", text, {"ratio": rounded / work}),)


def trace_used(used: int, windows: int) -> tuple[Caveat, ...]:
    """Return a caveat if the windows of a recipe cover little of the trace."""
    if not windows or used >= TRACE_USED * windows:
        return ()
    text = (
        f"the recipe's windows are {used:,} of {windows:,} in the trace, "
        f"{share_text(used / windows)} of its jobs: results hold for this section. Widen "
        "[split], or take larger windows."
    )
    return (Caveat("trace_used", text, {"used": used, "windows": windows}),)


def share_text(share: float) -> str:
    """Return a share as a percentage, with a decimal below 10 %."""
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
