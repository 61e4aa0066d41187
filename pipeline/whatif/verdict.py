"""The badge of a comparison: when a page may say that a policy is better than a scheduler.

`verdict` goes through one table and takes the first row that holds:

    a disqualifier                               grey    Cannot be judged
    grade "-"                                    grey    Nearly nobody waits
    grade C or D, or the opponent is a rule      grey    Not about your scheduler
    signs of the run and of the windows differ   grey    Depends on the view
    the interval has 0, or the difference in
    the run is within 2 sd of the shakes         grey    No clear difference
    less slowdown                                green   Gain
    less slowdown, with a price                  yellow  Gain with a price
    more slowdown                                red     Worse

A shake moves every submission by up to a minute. A difference that such shakes make or unmake is
one of chance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.pages.numbers import (
    count_of,
    percent,
    three_digits,
    time_unit,
    write_interval,
)
from hindcast.pipeline.workloads.caveats import NO_WAIT_TIMES, Caveat
from hindcast.pipeline.workloads.log_caveats import FEW_JOBS

Badge: TypeAlias = Literal[
    "Cannot be judged",
    "Nearly nobody waits",
    "Not about your scheduler",
    "Depends on the view",
    "No clear difference",
    "Gain",
    "Gain with a price",
    "Worse",
]
Colour: TypeAlias = Literal["grey", "green", "yellow", "red"]
Kind: TypeAlias = Literal["rule", "agent", "refused agent", "knows run times"]

RECORDED: Final = "recorded"
FEWEST_BLOCKS: Final = 4  # weeks or windows of an interval
FEWEST_JOBS: Final = 400  # of a log
SHAKES: Final = 2.0  # standard deviations within which a difference is one of chance
PRICE: Final = 1.2  # times the opponent's value that are a price
_REPLAY: Final = "replay"  # code of a replay that is off
REPLAY: Final = 0.01  # largest relative error of the means of a replay
_COLOURS: Final[Mapping[Badge, Colour]] = {
    "Gain": "green",
    "Gain with a price": "yellow",
    "Worse": "red",
}
PRICES: Final[Mapping[str, str]] = {  # metric -> what is `1.5 times as long`
    "mean_wait_s": "the mean wait is {} times as long",
    "p99_wait_s": "the p99 wait is {} times as long",
    "max_wait_s": "the longest wait is {} times as long",
    "mean_slowdown_wide": "the slowdown of wide jobs is {} times as large",
    "mean_slowdown_long": "the slowdown of long jobs is {} times as large",
}


@dataclass(frozen=True)
class Difference:
    """Mean bounded slowdown of a policy and of its opponent in one scope.

    Attributes:
        scope: "run" or "windows".
        policy: Mean of the policy.
        opponent: Mean of the opponent.
        blocks: Weeks of the run, or windows.
        low: Lower end of the 95 % interval of policy - opponent; NaN without an interval.
        high: Its upper end.
    """

    scope: Literal["run", "windows"]
    policy: float
    opponent: float
    blocks: int = 1
    low: float = math.nan
    high: float = math.nan

    @property
    def value(self) -> float:
        """Difference policy - opponent."""
        return self.policy - self.opponent

    @property
    def clear(self) -> bool:
        """True if an interval over enough blocks excludes 0 on the side of the difference."""
        if self.blocks < FEWEST_BLOCKS:
            return False
        return (self.value < 0 and self.high < 0) or (self.value > 0 and self.low > 0)

    @property
    def share(self) -> str:
        """The difference relative to the opponent in words: `61 % less`."""
        side = "less" if self.value < 0 else "more"
        return f"{percent(abs(self.value) / self.opponent, signed=False)} {side}"

    @property
    def place(self) -> str:
        """The scope in words."""
        return "in the run" if self.scope == "run" else f"over {count_of(self.blocks, 'window')}"

    @property
    def numbers(self) -> str:
        """Both means and the interval of the difference, in words."""
        text = f"{three_digits(self.policy)} for {three_digits(self.opponent)}"
        if self.blocks < FEWEST_BLOCKS or not math.isfinite(self.low):
            return text
        decimals = 2 if max(abs(self.low), abs(self.high)) < 10 else 1
        ends = write_interval(self.low, self.high, decimals, signed=True)
        return f"{text}, 95 % interval of the difference {ends}"


@dataclass(frozen=True)
class Evidence:
    """Evidence about a candidate and its opponent, in plain numbers.

    Attributes:
        policy: The candidate: the best rule of the log before the run, or an agent.
        kind: Its kind. A refused agent is one that the gate of its training did not deliver.
        opponent: `recorded` for the scheduler of the log, else a rule.
        run: Both in the run.
        windows: Both on the windows; None without windows.
        shake_sd: Standard deviation of the difference in the run over the shakes, see
            `difference_sd`; None if nothing was shaken.
        letter: Grade of the machine, "A" to "D", "-" where nearly nobody waits, "" without record.
        failing: The measurements behind a grade below B, in words.
        disqualifiers: Facts about the log, the machine or its replay that forbid a conclusion.
        known: Rule by which the log is served; "" if no known order explains it.
        ratios: Values of the metrics of `PRICES` in the run, over those of the opponent.
        jobs: Usable jobs of the log.
        without_wait: Share of the jobs of the log that start at once.
        mean_wait_s: Mean wait of the jobs of the log.
        replay_error: Largest relative error of the mean wait and slowdown of the replay.
        changed: Whether the two play in different worlds.
        before: Whether the candidate was chosen before the run, not after the fact.
        aside: The candidate and a rule, both simulated, for a sentence about rules.
        aside_name: Name of that rule.
        machine: What the size of the machine is, in words.
    """

    policy: str
    kind: Kind
    opponent: str
    run: Difference
    windows: Difference | None
    shake_sd: float | None
    letter: str
    failing: str = ""
    disqualifiers: tuple[Caveat, ...] = ()
    known: str = ""
    ratios: Mapping[str, float] = field(default_factory=dict)
    jobs: int = FEWEST_JOBS
    without_wait: float = 0.0
    mean_wait_s: float = 0.0
    replay_error: float = 0.0
    changed: bool = False
    before: bool = True
    aside: Difference | None = None
    aside_name: str = ""
    machine: str = "number of processors"


@dataclass(frozen=True)
class Verdict:
    """Statement that a page may make about a candidate.

    Attributes:
        badge: The badge.
        colour: Its colour.
        sentence: First sentence of the page.
        reasons: Everything that kept the badge from a better one, and the price, in the order of
            the table.
        disqualifiers: All facts that forbid a conclusion.
    """

    badge: Badge
    colour: Colour
    sentence: str
    reasons: tuple[str, ...]
    disqualifiers: tuple[Caveat, ...]


def choose(means: Mapping[str, float], kinds: Mapping[str, Kind]) -> str | None:
    """Return the candidate: the policy of least slowdown among rules and delivered agents.

    `means` are mean bounded slowdowns on the log before the run; a tie goes to the first. Returns
    None if no policy may be one.
    """
    allowed = [name for name in means if kinds.get(name) in {"rule", "agent"}]
    return min((name for name in allowed if name != RECORDED), key=means.__getitem__, default=None)


def difference_sd(
    shaken: Mapping[str, NDArray[np.float64]], policy: str, opponent: str, known: str
) -> float | None:
    """Return the standard deviation of policy - opponent over the shakes; None if not shaken.

    The record cannot be shaken. The rule by which the log is served stands for it. Without a known
    one, both vary on their own, the record as the median of the rules with EASY backfilling does.

    Args:
        shaken: Values of each policy by draw, (K,).
        policy: A policy.
        opponent: A policy, or `recorded`.
        known: The rule by which the log is served, or "".
    """
    other = known if opponent == RECORDED else opponent
    if policy not in shaken or len(shaken[policy]) < 2:
        return None
    if other in shaken:
        return float(np.std(shaken[policy] - shaken[other], ddof=1))
    spreads = [np.std(of, ddof=1) for name, of in shaken.items() if name.endswith("_easy")]
    if opponent != RECORDED or not spreads:
        return None
    return float(np.hypot(np.std(shaken[policy], ddof=1), np.median(spreads)))


def verdict(evidence: Evidence) -> Verdict:
    """Return the badge of a comparison, its first sentence and the reasons."""
    of, run, windows = evidence, evidence.run, evidence.windows
    found = _disqualifiers(of)
    scopes = [scope for scope in (run, windows) if scope is not None]
    differ = windows is not None and run.value * windows.value < 0
    doubts = tuple(_doubts(of, scopes))
    price = [
        text.format(three_digits(of.ratios[metric]))
        for metric, text in PRICES.items()
        if of.ratios.get(metric, 0.0) > PRICE
    ]
    about = of.opponent != RECORDED or of.letter in {"C", "D"}
    clear = next((scope for scope in scopes if scope.clear), run)
    name = of.policy if of.before else f"{of.policy}, chosen after the fact,"
    theirs = _name(of.opponent)
    measured = f"{name} has {clear.share} mean bounded slowdown than {theirs} ({clear.numbers})"
    claim = sentence_of(f"{clear.place}, {measured}")
    badge: Badge
    if found:
        badge, text = "Cannot be judged", _unjudged(of, found)
    elif of.letter == "-":
        badge, text = "Nearly nobody waits", _nobody_waits(of)
    elif about:
        badge, text = "Not about your scheduler", _not_about(of, clear)
    elif differ and windows is not None:
        badge = "Depends on the view"
        text = (
            f"In the run, {name} has {run.share} mean bounded slowdown than {theirs} "
            f"({run.numbers}); {windows.place} it has {windows.share} ({windows.numbers})."
        )
    elif doubts:
        badge, text = "No clear difference", _unclear(of, name)
    elif clear.value > 0:
        badge, text = "Worse", claim
    elif price:
        text = f"{claim[:-1]}; the price, in the run: {listed(price)}."
        badge = "Gain with a price"
    else:
        badge, text = "Gain", claim
    reasons = [sentence_of(caveat.text) for caveat in found]
    if of.letter == "-":
        reasons.append(_nobody_waits(of))
    if of.letter in {"C", "D"}:
        reasons.append(sentence_of(f"grade {of.letter}: {of.failing or 'the machine is another'}"))
    if of.opponent != RECORDED:
        reasons.append(f"{of.opponent} is a rule on the simulated machine, not your scheduler.")
    if differ and windows is not None:
        reasons.append(
            f"In the run {run.numbers}, but {windows.numbers} {windows.place}: the signs differ."
        )
    reasons += doubts
    if price and clear.value < 0 and of.kind != "refused agent":
        reasons.append(sentence_of(f"in the run, under {of.policy}, {listed(price)}"))
    return Verdict(badge, _COLOURS.get(badge, "grey"), text, tuple(reasons), found)


def _disqualifiers(of: Evidence) -> tuple[Caveat, ...]:
    """Return the facts that forbid a conclusion, each code once."""
    found = list(of.disqualifiers)
    if of.kind == "refused agent":
        found.append(Caveat("refused", "the gate of its training did not deliver the agent"))
    if of.kind == "knows run times":
        text = f"{of.policy} is given run times, which no scheduler knows"
        found.append(Caveat("knows_run_times", text))
    if not of.letter:
        text = "the log does not say when jobs started; what would mend it: their starts"
        found.append(Caveat(NO_WAIT_TIMES, text))
    if of.jobs < FEWEST_JOBS:
        text = f"the log has {count_of(of.jobs, 'job')}, fewer than {FEWEST_JOBS}"
        text += "; what would mend it: a longer log"
        found.append(Caveat(FEW_JOBS, text, {"jobs": of.jobs}))
    if of.replay_error > REPLAY:
        text = (
            f"the replay of the record is {percent(of.replay_error, signed=False)} off in its mean "
            "wait or slowdown, since jobs did not fit when they started; what would mend it: the "
            f"true {of.machine}"
        )
        found.append(Caveat(_REPLAY, text, {"error": of.replay_error}))
    if of.changed:
        found.append(Caveat("changed_world", "the two are played in different worlds"))
    return tuple({caveat.code: caveat for caveat in reversed(found)}.values())[::-1]


def _doubts(of: Evidence, scopes: Sequence[Difference]) -> list[str]:
    """Return the reasons for which a difference is not clear: signs, intervals, shakes."""
    doubts = []
    if len(scopes) < 2:
        doubts.append("The run alone was played; windows of the same jobs could say the opposite.")
    if any(scope.value == 0 for scope in scopes):
        doubts.append(f"{of.policy} and {_name(of.opponent)} have equal means.")
    elif not any(scope.clear for scope in scopes):
        with_interval = [scope for scope in scopes if scope.blocks >= FEWEST_BLOCKS]
        doubts += [
            sentence_of(f"{scope.place}, the difference can be 0: {scope.numbers}")
            for scope in with_interval
        ] or [f"Fewer than {FEWEST_BLOCKS} weeks or windows give no interval."]
    if of.shake_sd is None:
        doubts.append("Nothing was shaken, so that one run is one draw; --shake 20 shakes it.")
    elif abs(of.run.value) <= SHAKES * of.shake_sd:
        doubts.append(
            f"In the run, the difference of {three_digits(of.run.value, signed=True)} is within "
            f"two standard deviations over the shakes ({three_digits(of.shake_sd)} each)."
        )
    return doubts


def _name(opponent: str) -> str:
    return "your scheduler" if opponent == RECORDED else opponent


def listed(texts: Sequence[str]) -> str:
    """Return texts as one: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def sentence_of(text: str) -> str:
    """Return text that begins with a capital and ends with a full stop."""
    text = text.rstrip(".")
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def _unjudged(of: Evidence, found: Sequence[Caveat]) -> str:
    """Return which fact forbids a conclusion; without a record, rules can still be compared."""
    why = found[0].text.rstrip(".")
    if found[0].code == _REPLAY and of.failing:
        why += f"; {of.failing}"
    if of.kind == "refused agent":
        return f"Nothing can be judged: {why}."
    theirs = _name(of.opponent if of.letter else RECORDED)
    text = (
        f"Whether {of.policy} would serve these jobs with less slowdown than {theirs} cannot be "
        f"judged: {why}"
    )
    if others := [caveat.text.split(";")[0].rstrip(".") for caveat in found[1:]]:
        text += f"; also: {'; '.join(others)}"
    if [caveat.code for caveat in found] == [NO_WAIT_TIMES] and of.aside is not None:
        text += f"; {_simulated(of.policy, of.aside, of.aside_name)}"
    return sentence_of(text)


def _nobody_waits(of: Evidence) -> str:
    wait = time_unit(of.mean_wait_s).text(of.mean_wait_s)
    return (
        f"{percent(of.without_wait, signed=False)} of the log's jobs start without a wait, and the "
        f"mean wait is {wait}: there is next to nothing that another order could change."
    )


def _not_about(of: Evidence, clear: Difference) -> str:
    aside, name = (of.aside, of.aside_name) if of.opponent == RECORDED else (clear, of.opponent)
    text = ""
    if aside is not None and aside.value:
        text = _simulated(of.policy, aside, name)
    if of.letter in {"C", "D"}:
        why = f"The simulated machine is not yours (grade {of.letter})"
        why += f": {of.failing.rstrip('.')}" if of.failing else ""
        text = f"{why}; {text}" if text else why
    return sentence_of(text or f"nothing here was compared with the record of {of.policy}")


def _simulated(policy: str, aside: Difference, other: str) -> str:
    return (
        f"on the simulated machine, {aside.place}, {policy} has {aside.share} mean bounded "
        f"slowdown than {other} ({aside.numbers})"
    )


def _unclear(of: Evidence, name: str) -> str:
    """Return that nothing is certain, with difference, interval and the spread of the shakes."""
    run, windows = of.run, of.windows
    if of.known and of.known == of.policy and run.value == 0:
        return f"{of.policy} is what your scheduler does: both have {run.numbers} in the run."
    text = (
        f"Between {name.rstrip(',')} and {_name(of.opponent)} no difference is certain: in the run "
        f"{run.numbers}, a difference of {three_digits(run.value, signed=True)}"
    )
    if of.shake_sd is not None:
        text += f" with a standard deviation of {three_digits(of.shake_sd)} over the shakes"
    if windows is not None and run.blocks < FEWEST_BLOCKS:  # the interval that the run lacks
        text += f"; {windows.place} {windows.numbers}"
    return f"{text}."
