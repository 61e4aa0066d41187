"""Outcomes of jobs by the values of a column of states: words, numbers of Slurm or SWF, flags."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hindcast.pipeline.traces.slurm_output.states import FLAGS, STATE_NUMBERS, STATES

MOST: Final = 40  # values of a column of states
_WORDS: Final[Mapping[str, str]] = {
    **{state.lower(): outcome for state, outcome in STATES.items()},
    **dict.fromkeys(("complete", "done", "success", "succeeded", "successful", "finished", "ok",
                     "exited", "terminated", "pass", "passed"), "completed"),
    **dict.fromkeys(("fail", "error", "killed", "crashed", "aborted", "exit", "timedout",
                     "evicted", "lost"), "failed"),
    **dict.fromkeys(("canceled", "deleted", "removed"), "cancelled"),
    **dict.fromkeys(("queued", "waiting", "pend", "held", "hold", "idle"), "waiting"),
    **dict.fromkeys(("run", "active", "started"), "running"),
}  # fmt: skip
_SWF: Final[Mapping[str, str]] = {"1": "completed", "0": "failed", "5": "cancelled"}
_FLAG_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("true", "1", "1.0", "yes"), "completed"),
    **dict.fromkeys(("false", "0", "0.0", "no"), "failed"),
}
_SUCCESS: Final = frozenset({"success", "succeeded"})
_EXIT: Final = frozenset({"exitstatus", "exitcode", "exit", "ec"})


@dataclass
class States:
    """Values of a column of states by outcome, and what is unsure about them."""

    values: dict[str, list[str]] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)


def words_of(values: Sequence[str]) -> list[str]:
    """Return the values, each `CANCELLED by 1000` as its first word if that is a state."""
    words: dict[str, None] = {}
    for value in values:
        first = value.split(" ")[0]
        by = re.match(r"\S+ by \S+$", value) is not None and first.lower() in _WORDS
        words[first if by else value] = None
    return list(words)


def states_of(label: str, counts: Mapping[str, int], ended: Mapping[str, int]) -> States:
    """Sort the values of a column by outcome.

    Args:
        label: Name of the column.
        counts: Rows with each value.
        ended: Rows with each value that have an end, or a run time.

    Returns:
        The outcomes, and a line for each value that is not known.
    """
    found = States()
    name = re.sub(r"[^a-z]", "", label.lower())
    numeric = all(re.fullmatch(r"-?\d+(\.0)?", value) for value in counts)
    plain = {value: value.removesuffix(".0") for value in counts}
    if name in _SUCCESS and {value.lower() for value in counts} <= _FLAG_WORDS.keys():
        outcome_of = {value: _FLAG_WORDS[value.lower()] for value in counts}
    elif numeric and name in _EXIT:
        outcome_of = {v: "completed" if plain[v] == "0" else "failed" for v in counts}
        found.unsure.append(f"state: {label!r} is taken as an exit status, 0 for success")
    elif numeric and _is_slurm(counts, ended, plain):
        outcome_of = {v: o for v in counts if (o := _of_slurm(int(plain[v])))}
        found.unsure.append(
            f"state: the numbers of {label!r} are taken as those of Slurm (3 completed, 4 "
            "cancelled, 5 failed, 6 timeout)"
        )
    elif numeric and set(plain.values()) <= {"-1", *"012345"}:
        outcome_of = {v: _SWF[plain[v]] for v in counts if plain[v] in _SWF}
        found.unsure.append(f"state: the numbers of {label!r} are taken as those of SWF logs")
    else:
        outcome_of = {v: o for v in counts if (o := _of_word(v))}
    for value in counts:
        if value in outcome_of:
            found.values.setdefault(outcome_of[value], []).append(value)
        else:
            found.unsure.append(
                f"state: {value!r} is not known; its rows are quarantined unless [states] has it"
            )
    return found


def _is_slurm(
    counts: Mapping[str, int], ended: Mapping[str, int], plain: Mapping[str, str]
) -> bool:
    """Return whether numbers are those of Slurm, where jobs that ended have 3 or more."""
    numbers = {int(plain[value]): value for value in counts}
    if min(numbers) < 0:
        return False
    if max(numbers) > 5:
        return all(_of_slurm(number) for number in numbers)
    over = sum(ended.get(numbers[n], 0) for n in (3, 4, 5) if n in numbers)
    open_ = sum(ended.get(numbers[n], 0) for n in (0, 1, 2) if n in numbers)
    return (3 in numbers or 4 in numbers) and over > open_


def _of_slurm(number: int) -> str | None:
    state = number % FLAGS
    return STATES[STATE_NUMBERS[state]] if state < len(STATE_NUMBERS) else None


def _of_word(value: str) -> str | None:
    match = re.match(r"[a-z_]*", value.lower().replace(" ", "_").replace("-", "_"))
    state = match[0] if match else ""
    return _WORDS.get(state) or _WORDS.get(state.split("_")[0])
