"""Settings of Slurm that order jobs: lines of slurm.conf, or the output of `scontrol show config`.

    PriorityType=priority/multifactor
    PriorityWeightAge=1000
    PriorityMaxAge=7-0                                   days-hours
    SchedulerParameters=bf_max_job_test=500,bf_job_part_count_reserve=1
    PartitionName=debug PriorityJobFactor=4 MaxTime=30 Nodes=n[01-16]

Keys have any case, `#` begins a comment, and a line that ends with a backslash goes on in the next.
Other keys of slurm.conf are not looked at. A setting that would change the order of jobs and is not
simulated is named in `SlurmConf.not_modelled`.

Sources: slurm.conf(5) of Slurm 23.11; src/plugins/sched/backfill/backfill.c for the range of
bf_job_part_count_reserve.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import InputError, did_you_mean, printable

UNLIMITED: Final = -1  # a time without an end, in s
RESETS: Final = ("NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY")
_DAY_S: Final = 86_400
_UINT32: Final = 2**32 - 1


@dataclass(frozen=True)
class Partition:
    """A line PartitionName of slurm.conf.

    Attributes:
        name: Its name, whose case matters.
        job_factor: PriorityJobFactor.
        tier: PriorityTier.
        max_time_s: MaxTime in s, UNLIMITED without one.
        nodes: Names of its nodes; empty if the line has none, or ALL.
    """

    name: str
    job_factor: int = 1
    tier: int = 1
    max_time_s: int = UNLIMITED
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SlurmConf:
    """The settings of one file. Defaults are those of Slurm.

    Attributes:
        path: The file.
        multifactor: Whether PriorityType is priority/multifactor; else jobs start in order of
            arrival.
        weight_age, weight_size, weight_partition, weight_qos, weight_fairshare: Weights.
        max_age_s: PriorityMaxAge in s, UNLIMITED without one.
        favor_small: PriorityFavorSmall.
        flags: PriorityFlags.
        half_life_s: PriorityDecayHalfLife in s; usage does not decay if it is 0.
        reset: PriorityUsageResetPeriod, one of RESETS.
        dampening: FairShareDampeningFactor.
        period_s: PriorityCalcPeriod in s.
        backfill: Whether SchedulerType is sched/backfill; else it is sched/builtin.
        tested: bf_max_job_test: jobs that one pass of backfilling tests.
        reserving: bf_job_part_count_reserve: jobs that get a reservation; 0 is every tested one.
        window_s: bf_window in s. It is not simulated.
        partitions: The partitions by name.
        not_modelled: Lines of the file that a simulation does not obey.
    """

    path: Path
    multifactor: bool = True
    weight_age: int = 0
    weight_size: int = 0
    weight_partition: int = 0
    weight_qos: int = 0
    weight_fairshare: int = 0
    max_age_s: int = 7 * _DAY_S
    favor_small: bool = False
    flags: tuple[str, ...] = ()
    half_life_s: int = 7 * _DAY_S
    reset: str = "NONE"
    dampening: int = 1
    period_s: int = 300
    backfill: bool = True
    tested: int = 500
    reserving: int = 0
    window_s: int = _DAY_S
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    not_modelled: tuple[str, ...] = ()


def seconds(text: str) -> int:
    """Return a time of Slurm in s, UNLIMITED for one without an end.

    The forms are minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes
    and days-hours:minutes:seconds. Raises ValueError for another one.
    """
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return UNLIMITED
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("minutes, hours:minutes:seconds or days-hours:minutes:seconds")
    days, rest = found["days"], [int(part) for part in found["rest"].split(":")]
    units = (3600, 60, 1) if days is not None or len(rest) == 3 else (60, 1)
    return int(days or 0) * _DAY_S + sum(a * b for a, b in zip(rest, units, strict=False))


_TIME: Final = re.compile(r"(?:(?P<days>\d{1,9})-)?(?P<rest>\d{1,9}(?::\d{1,9}){0,2})")


def node_names(text: str) -> frozenset[str]:
    """Return the nodes of a list such as n[01-03,07],gpu1; empty for ALL.

    Raises ValueError if the list has another form, or more than a million nodes.
    """
    if text.upper() == "ALL":
        return frozenset()
    names: list[str] = []
    members = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if ",".join(members) != text:
        raise ValueError("nodes such as n[01-16,20]")
    for one in members:
        names += _expanded(one)
    return frozenset(names)


def _expanded(one: str) -> list[str]:
    """Return the names of one member of a list, with all its brackets resolved."""
    head, bracket, rest = one.partition("[")
    inside, end, tail = rest.partition("]")
    if not bracket:
        return [one]
    numbers: list[str] = []
    for part in inside.split(","):
        low, _, high = part.partition("-")
        high = high or low
        if not (end and low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
            raise ValueError("nodes such as n[01-16,20]")
        if int(high) - int(low) >= _MOST_NODES:
            raise ValueError("at most a million nodes")
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
    after = _expanded(tail)
    if len(numbers) * len(after) > _MOST_NODES:
        raise ValueError("at most a million nodes")
    return [f"{head}{number}{last}" for number in numbers for last in after]


_MOST_NODES: Final = 1_000_000


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return int(text)

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    """Return a parser of a word in any case."""

    def parse(text: str) -> str:
        found = [word for word in words if word.lower() == text.lower()]
        if not found:
            raise ValueError(did_you_mean(text, words))
        return found[0]

    return parse


def _several_of(*words: str) -> Callable[[str], tuple[str, ...]]:
    one = _one_of(*words)
    return lambda text: tuple(one(word.strip()) for word in text.split(",") if word.strip())


def _yes(text: str) -> bool:
    return _one_of(*_YES, *_NO)(text) in _YES


def _finite(text: str) -> int:
    if (found := seconds(text)) == UNLIMITED:
        raise ValueError("a time that ends, such as 7-0; 0 is never")
    return found


_YES: Final = ("YES", "TRUE", "UP", "1")
_NO: Final = ("NO", "FALSE", "DOWN", "0")
_FLAGS: Final = (
    "ACCRUE_ALWAYS", "CALCULATE_RUNNING", "DEPTH_OBLIVIOUS", "FAIR_TREE", "INCR_ONLY", "MAX_TRES",
    "MAX_TRES_GRES", "NO_FAIR_TREE", "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART",
    "NO_NORMAL_QOS", "NO_NORMAL_TRES", "SMALL_RELATIVE_TO_TIME",
)  # fmt: skip
_MODELLED_FLAGS: Final = {
    "ACCRUE_ALWAYS", "CALCULATE_RUNNING", "FAIR_TREE", "NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME",
}  # fmt: skip
_WEIGHT: Final = _whole(0, _UINT32)

# Key of a line of its own -> attribute and parser.
_KEYS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "PriorityType": ("type", _one_of("priority/multifactor", "priority/basic")),
    "PriorityWeightAge": ("weight_age", _WEIGHT),
    "PriorityWeightJobSize": ("weight_size", _WEIGHT),
    "PriorityWeightPartition": ("weight_partition", _WEIGHT),
    "PriorityWeightQOS": ("weight_qos", _WEIGHT),
    "PriorityWeightFairshare": ("weight_fairshare", _WEIGHT),
    "PriorityMaxAge": ("max_age_s", seconds),
    "PriorityFavorSmall": ("favor_small", _yes),
    "PriorityFlags": ("flags", _several_of(*_FLAGS)),
    "PriorityDecayHalfLife": ("half_life_s", _finite),
    "PriorityUsageResetPeriod": ("reset", _one_of(*RESETS)),
    "FairShareDampeningFactor": ("dampening", _whole(1, 65_535)),
    "PriorityCalcPeriod": ("period_s", _finite),
    "SchedulerType": ("scheduler", _one_of("sched/backfill", "sched/builtin")),
}
# Keys that change the order of jobs if they have another value than these, and are not simulated.
_ASIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "PriorityWeightAssoc": ("0",),
    "PriorityWeightTRES": (),
    "PriorityParameters": (),
    "PrioritySiteFactorPlugin": (),
    "PrioritySiteFactorParameters": (),
    "PreemptType": ("preempt/none",),
}
_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "bf_max_job_test": ("tested", _whole(1, 1_000_000)),
    "bf_job_part_count_reserve": ("reserving", _whole(0, 100_000)),
    "bf_window": ("window_s", lambda text: 60 * _whole(1, 43_200)(text)),
}
_PARTITION: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "PriorityJobFactor": ("job_factor", _whole(0, 65_533)),
    "PriorityTier": ("tier", _whole(0, 65_533)),
    "MaxTime": ("max_time_s", seconds),
    "Nodes": ("nodes", node_names),
}
_UNSET: Final = ("", "(null)", "none")
_PAIR: Final = re.compile(r'([\w./-]+)\s*=\s*("[^"]*"|\S*)')
_SHOWN: Final = "Configuration data as of"  # the first line of `scontrol show config`


@dataclass(frozen=True)
class Statement:
    """The pairs of a key and a value on one line of a file.

    Attributes:
        where: The file and the number of the line, for messages.
        pairs: Keys as written and values without quotation marks.
    """

    where: str
    pairs: list[tuple[str, str]]


def is_slurm_conf(text: str) -> bool:
    """Return whether a text has a line of slurm.conf that this module reads."""
    known = {key.lower() for key in (*_KEYS, *_ASIDE, "SchedulerParameters", "PartitionName")}
    return any(
        found[1].lower() in known
        for line in text.splitlines()
        if (found := _PAIR.match(line.strip()))
    )


def read_text(path: Path) -> str:
    """Return the text of a file of settings; raise InputError if it is none.

    Comments may have any encoding.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: has more than {_MOST_BYTES:,} bytes, expected settings")
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file, expected lines of slurm.conf") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if b"\0" in raw:
        raise InputError(f"{path}: this is no text, expected settings")
    return raw.decode("utf-8-sig", errors="replace")


_MOST_BYTES: Final = 1 << 24


def parse_slurm_conf(text: str, path: Path) -> SlurmConf:
    """Return the settings of the text of a file.

    Raises InputError with the file and the line for a value that Slurm does not know, for a key or
    an option that is nearly one of these, and for two lines that contradict each other.
    """
    values: dict[str, tuple[Any, str]] = {}  # attribute: value and where it stands
    partitions: dict[str, Partition] = {}
    default = Partition("DEFAULT")
    aside: list[str] = []
    for statement in _statements(text, path):
        where, pairs = statement.where, statement.pairs
        first = pairs[0][0].lower()
        if first == "include":
            aside.append(f"Include {pairs[0][1]}: this file is not read")
        elif first == "partitionname":
            one = _partition(statement, default)
            if one.name == "DEFAULT":
                default = one
            elif one.name in partitions:
                raise InputError(f"{where}: PartitionName={one.name} stands there twice")
            else:
                partitions[one.name] = one
        elif first not in {"nodename", "nodeset", "downnodes", "frontendname"}:
            for key, value in pairs:
                if key.lower() == "schedulerparameters":
                    aside += _options(value, where, values)
                else:
                    aside += _setting(key, value, where, values)
    flags, where = values.get("flags", ((), ""))
    if {"FAIR_TREE", "NO_FAIR_TREE"} <= {*flags}:
        raise InputError(f"{where}: PriorityFlags has FAIR_TREE and NO_FAIR_TREE; leave one out")
    found = {name: value for name, (value, _) in values.items()}
    aside += _not_modelled(found, partitions)
    return SlurmConf(
        path,
        multifactor=found.pop("type", "priority/multifactor") == "priority/multifactor",
        backfill=found.pop("scheduler", "sched/backfill") == "sched/backfill",
        partitions=partitions,
        not_modelled=tuple(dict.fromkeys(aside)),
        **found,
    )


def _statements(text: str, path: Path) -> Iterator[Statement]:
    """Yield the lines with pairs, continued lines joined and comments removed."""
    joined, first, shown = "", 0, text.lstrip().startswith(_SHOWN)
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        first = first if joined else number
        line = joined + (line.lstrip() if joined.endswith(",") else line)
        joined = line[:-1] if line.endswith("\\") else ""
        if joined:
            continue
        line = line.strip()
        where = f"{path}, line {first}"
        if not line:
            continue
        if line.lower().split()[0] == "include":
            yield Statement(where, [("include", " ".join(line.split()[1:]))])
            continue
        pairs = [(key, value.strip('"')) for key, value in _PAIR.findall(line)]
        if pairs and _PAIR.match(line):
            yield Statement(where, pairs)
        elif not shown:
            raise InputError(f"{where}: {printable(line[:80])!r}, expected KEY=VALUE")


def _partition(statement: Statement, default: Partition) -> Partition:
    """Return the partition of a line."""
    found: dict[str, Any] = {}
    names = {name.lower(): name for name in _PARTITION}
    for key, value in statement.pairs[1:]:
        if (name := names.get(key.lower())) is not None:
            attribute, parse = _PARTITION[name]
            found[attribute] = _parsed(name, value, parse, statement.where)
    return replace(default, name=statement.pairs[0][1], **found)


def _setting(key: str, value: str, where: str, values: dict[str, tuple[Any, str]]) -> list[str]:
    """Add the value of a key to `values`; return what is not modelled of it."""
    known = {name.lower(): name for name in (*_KEYS, *_ASIDE)}
    name = known.get(key.lower())
    if name is None:
        _refuse_typo(key, (*_KEYS, *_ASIDE, "SchedulerParameters"), where)
        return []
    if value.lower() in _UNSET and name != "PriorityUsageResetPeriod":
        return []
    if name in _ASIDE:
        return [] if value in _ASIDE[name] else [f"{name}={value}"]
    attribute, parse = _KEYS[name]
    _add(name, attribute, _parsed(name, value, parse, where), where, values)
    return []


def _options(text: str, where: str, values: dict[str, tuple[Any, str]]) -> list[str]:
    """Add the options of SchedulerParameters to `values`; return those that are not modelled."""
    aside = []
    for option in filter(None, map(str.strip, text.split(","))):
        name, _, value = option.partition("=")
        if name.lower() in _UNSET:
            continue
        if name.lower() not in _OPTIONS:
            _refuse_typo(name, _OPTIONS, where, _OTHER_OPTIONS)
            aside.append(f"SchedulerParameters={option}")
            continue
        attribute, parse = _OPTIONS[name.lower()]
        _add(name, attribute, _parsed(name, value, parse, where), where, values)
    return aside


# Options that are so similar to the ones above that they would be taken for misspelt ones.
_OTHER_OPTIONS: Final = (
    "bf_max_job_start", "bf_max_job_user", "bf_max_job_part", "bf_max_job_assoc", "bf_max_time",
    "bf_window_linear", "bf_max_job_user_part",
)  # fmt: skip


def _parsed(name: str, value: str, parse: Callable[[str], Any], where: str) -> Any:
    """Return a parsed value; raise InputError with the expectation of its parser."""
    try:
        return parse(value)
    except ValueError as error:
        said = str(error)
        expected = said if said.startswith(("did you", "known:")) else f"expected {said}"
        raise InputError(f"{where}: {name} is {printable(value[:80])!r}; {expected}") from error


def _add(
    name: str, attribute: str, value: Any, where: str, values: dict[str, tuple[Any, str]]
) -> None:
    """Add a value; raise InputError if an earlier line gives another one."""
    old, place = values.setdefault(attribute, (value, where))
    if old != value:
        raise InputError(f"{where}: {name} contradicts {place.rpartition(', ')[2]}; leave one out")


def _refuse_typo(name: str, known: Any, where: str, others: tuple[str, ...] = ()) -> None:
    """Raise InputError for a key that is nearly a known one, or begins as if it were one."""
    lower = {one.lower(): one for one in known}
    if name.lower() in others:
        return
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.9)
    if close or name.lower().startswith("priority"):
        raise InputError(f"{where}: unknown key {name!r}; {did_you_mean(name, lower.values())}")


def _not_modelled(found: Mapping[str, Any], partitions: Mapping[str, Partition]) -> list[str]:
    """Return the settings of known keys that a simulation does not obey."""
    flags = found.get("flags", ())
    aside = [f"PriorityFlags={flag}" for flag in flags if flag not in _MODELLED_FLAGS]
    if found.get("weight_qos"):
        aside.append(
            f"PriorityWeightQOS={found['weight_qos']}: slurm.conf has no priorities of QOS, so the "
            "factor is 0"
        )
    if found.get("weight_fairshare"):
        aside.append(
            "fair share: slurm.conf has no shares of accounts, so all users have equal ones"
        )
    weighted = [name for name in found if name.startswith("weight_") and found[name]]
    if weighted and found.get("type") == "priority/basic":
        aside.append("weights: PriorityType=priority/basic does not use them")
    if found.get("reset") == "NOW":
        aside.append("PriorityUsageResetPeriod=NOW")
    if len({one.tier for one in partitions.values()}) > 1:
        aside.append("PriorityTier: partitions of a higher tier are not served first")
    return aside
