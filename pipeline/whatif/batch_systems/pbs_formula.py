"""Settings of PBS that order jobs: job_sort_formula, backfill_depth, strict_ordering.

    set server job_sort_formula = "(eligible_time + walltime) / walltime"      lines of qmgr
    set server backfill_depth = 1
    set queue express Priority = 150
    strict_ordering: true ALL                                                  lines of sched_config
    job_sort_formula = -walltime                                               or as short as this

PBS evaluates a formula with Python: numbers, `+ - * / // % **`, comparisons, `and`, `or`, `not`,
`A if C else B`, and the functions of the module math. The greatest value starts first. Variables
are those of VARIABLES; a resource that logs do not have is refused.

Sources: pbs_server_attributes(7B) and src/include/constant.h of OpenPBS for the special names; the
default half-life of its fair share, a day, is that of its sched_config.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean, nearest, printable

Real = NDArray[np.float64]

VARIABLES: Final[Mapping[str, str]] = {
    "ncpus": "processors",
    "walltime": "requested time in s",
    "eligible_time": "s that the job has waited since it was eligible",
    "queue_priority": "Priority of the queue, 0 where no line sets it",
    "job_priority": "0: logs do not have qsub -p",
    "fairshare_factor": "2^-(fairshare_tree_usage / fairshare_perc)",
    "fairshare_tree_usage": "decayed usage of the user / that of all",
    "fairshare_perc": "share of the user: 1 / users",
}
CHANGING: Final = ("eligible_time", "fairshare_factor", "fairshare_tree_usage")  # while a job waits
FAIR: Final = ("fairshare_factor", "fairshare_tree_usage")
HALF_LIFE_S: Final = (
    86_400.0  # of PBS's fair share: fairshare_decay_time and _factor of its defaults
)
_OLD_NAMES: Final = {"fair_share_perc": "fairshare_perc"}
_LONGEST: Final = 10_000  # characters of a formula
_DEEPEST: Final = 100  # levels of a formula
_GREATEST: Final = 1e300  # number in a formula

_OPERATORS: Final[Mapping[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide, ast.Mod: np.mod, ast.Pow: np.power,
    ast.UAdd: np.positive, ast.USub: np.negative, ast.Not: lambda x: np.equal(x, 0.0) * 1.0,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def _log(x: Any, base: Any = math.e) -> Any:
    return np.log(x) if base is math.e else np.log(x) / np.log(base)


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {  # and number of arguments
    "acos": (np.arccos, 1), "asin": (np.arcsin, 1), "atan": (np.arctan, 1),
    "atan2": (np.arctan2, 2), "ceil": (np.ceil, 1), "cos": (np.cos, 1), "cosh": (np.cosh, 1),
    "degrees": (np.degrees, 1), "exp": (np.exp, 1), "fabs": (np.fabs, 1), "floor": (np.floor, 1),
    "fmod": (np.fmod, 2), "hypot": (np.hypot, 2), "log": (_log, 1), "log10": (np.log10, 1),
    "log1p": (np.log1p, 1), "log2": (np.log2, 1), "pow": (np.power, 2), "radians": (np.radians, 1),
    "sin": (np.sin, 1), "sinh": (np.sinh, 1), "sqrt": (np.sqrt, 1), "tan": (np.tan, 1),
    "tanh": (np.tanh, 1), "trunc": (np.trunc, 1),
}  # fmt: skip
_CONSTANTS: Final = {"pi": math.pi, "e": math.e}


@dataclass(frozen=True)
class Formula:
    """A formula that was checked.

    Attributes:
        text: As written.
        tree: Its syntax tree.
        names: The variables in it.
    """

    text: str
    tree: ast.expr
    names: frozenset[str]

    def values(self, variables: Mapping[str, Real]) -> Real:
        """Return the value for N jobs, (N,), from the variables, (N,) each.

        A value that Python could not compute, such as the logarithm of 0, is no finite number.
        """
        with np.errstate(all="ignore"):
            found = _value(self.tree, variables)
        shape = next(iter(variables.values())).shape
        return np.array(np.broadcast_to(found, shape), np.float64)


def parse_formula(text: str, where: str) -> Formula:
    """Return a formula; raise InputError that names what PBS or a log does not have."""
    if len(text) > _LONGEST:
        raise InputError(
            f"{where}: the formula has {len(text):,} characters, more than {_LONGEST:,}"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = getattr(error, "msg", type(error).__name__)
        raise InputError(f"{where}: {printable(text[:80])!r} is no formula ({said})") from error
    names: set[str] = set()
    _check(tree, where, names, 0)
    return Formula(text.strip(), tree, frozenset(names))


def _check(node: ast.expr, where: str, names: set[str], depth: int) -> None:
    """Raise InputError unless a node and all below it may stand in a formula; collect names."""
    if depth > _DEEPEST:
        raise InputError(f"{where}: the formula is nested more than {_DEEPEST} levels deep")
    match node:
        case ast.Constant(value=int() | float() as value) if type(value) is not bool:
            if abs(value) > _GREATEST:
                raise InputError(f"{where}: the formula has the number {str(value)[:20]}..")
            return
        case ast.Name(id=name):
            if name in VARIABLES or name in _OLD_NAMES:
                names.add(_OLD_NAMES.get(name, name))
            elif name not in _CONSTANTS:
                raise InputError(
                    f"{where}: the formula has {name!r}, which a log does not have; "
                    f"{did_you_mean(name, VARIABLES)}"
                )
            return
        case ast.UnaryOp(op=op, operand=inner) if type(op) in _OPERATORS:
            below = [inner]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            below = [left, right]
        case ast.BoolOp(values=below):
            pass
        case ast.Compare(left=left, ops=ops, comparators=rest) if {*map(type, ops)} <= {
            *_OPERATORS
        }:
            below = [left, *rest]
        case ast.IfExp(test=test, body=body, orelse=other):
            below = [test, body, other]
        case ast.Call(func=ast.Name(id=name), args=below, keywords=[]) if name in _FUNCTIONS:
            if len(below) != _FUNCTIONS[name][1] and (name, len(below)) != ("log", 2):
                raise InputError(
                    f"{where}: {name} takes {_FUNCTIONS[name][1]} numbers, the formula gives it "
                    f"{len(below)}"
                )
        case _:
            raise InputError(f"{where}: {_refusal(node)}")
    for one in below:
        _check(one, where, names, depth + 1)


def _refusal(node: ast.expr) -> str:
    """Return why a node may not stand in a formula."""
    try:
        text = printable(ast.unparse(node)[:80])
    except RecursionError:
        return "the formula is nested too deeply"
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        close = nearest(name, _FUNCTIONS)
        hint = f"; did you mean {close!r}?" if close else ""
        return f"the formula calls {name!r}; PBS knows the functions of Python's math alone{hint}"
    return f"the formula has {text!r}, expected arithmetic, comparisons or `A if C else B`"


def _value(node: ast.expr, variables: Mapping[str, Real]) -> Any:
    """Return the value of a checked node."""
    match node:
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return _CONSTANTS[name] if name in _CONSTANTS else variables[_OLD_NAMES.get(name, name)]
        case ast.UnaryOp(op=op, operand=inner):
            return _OPERATORS[type(op)](_value(inner, variables))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, variables), _value(right, variables))
        case ast.BoolOp(op=op, values=members):
            found = _value(members[0], variables)
            for member in members[1:]:
                other, true = _value(member, variables), np.not_equal(found, 0.0)
                found = np.where(
                    true, *((other, found) if isinstance(op, ast.And) else (found, other))
                )
            return found
        case ast.Compare(left=left, ops=ops, comparators=rest):
            sides = [_value(one, variables) for one in (left, *rest)]
            held = [
                _OPERATORS[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False)
            ]
            return np.logical_and.reduce(np.broadcast_arrays(*held)) * 1.0
        case ast.IfExp(test=test, body=body, orelse=other):
            chosen = np.not_equal(_value(test, variables), 0.0)
            return np.where(chosen, _value(body, variables), _value(other, variables))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name][0](*(_value(one, variables) for one in arguments))
    raise AssertionError(node)


@dataclass(frozen=True)
class PbsConf:
    """The settings of one file.

    Attributes:
        path: The file.
        formula: The formula; None if jobs start in order of arrival.
        depth: backfill_depth: jobs that get a reservation; 0 is no backfilling, unset is 1.
        strict: strict_ordering; without it nobody gets a reservation and whoever fits starts.
        queues: Priority of each queue that a line sets.
        not_modelled: Lines of the file, or defaults of PBS, that a simulation does not obey.
    """

    path: Path
    formula: Formula | None = None
    depth: int = 1
    strict: bool = True
    queues: Mapping[str, int] = field(default_factory=dict)
    not_modelled: tuple[str, ...] = ()


_KNOWN: Final = ("job_sort_formula", "backfill_depth", "strict_ordering", "eligible_time_enable")
_ASIDE: Final = ("fair_share", "by_queue", "round_robin", "job_sort_key", "help_starving_jobs")
_LINE: Final = re.compile(
    r"(?:(?:set|s)\s+(?:server|sched(?:\s+\w+)?|queue\s+(?P<queue>[\w.@-]+))\s+)?"
    r"(?P<key>\w+)\s*[=:]\s*(?P<value>.*)",
    re.IGNORECASE,
)
_TRUE: Final = {"true": True, "t": True, "1": True, "yes": True, "y": True}
_BOOLEAN: Final = {**_TRUE, "false": False, "f": False, "0": False, "no": False, "n": False}


def is_pbs_conf(text: str) -> bool:
    """Return whether a text has a line of PBS that this module reads."""
    lines = (_LINE.match(line.strip()) for line in text.splitlines())
    return any(found and (found["key"].lower() in _KNOWN or found["queue"]) for found in lines)


def parse_pbs_conf(text: str, path: Path) -> PbsConf:
    """Return the settings of the text of a file.

    Raises InputError with the file and the line for a value or a formula that PBS does not know,
    and for two lines that contradict each other.
    """
    values: dict[str, tuple[str, str]] = {}  # key: value and where it stands
    queues: dict[str, int] = {}
    aside: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line, where = raw.strip(), f"{path}, line {number}"
        found = _LINE.match(line) if not line.startswith("#") else None
        if found is None:
            continue
        key, value = found["key"].lower(), found["value"].strip()
        if found["queue"]:
            if key == "priority":
                queues[found["queue"]] = _number(value, where, "Priority", (-1024, 1023))
        elif key in _ASIDE:
            if _BOOLEAN.get(value.lower().split()[0] if value else "", True):
                aside.append(line)
        elif key in _KNOWN:
            quoted = re.fullmatch(r"(['\"])(.*)\1", value)
            value = quoted[2] if quoted else value
            old, place = values.setdefault(key, (value, where))
            if old != value:
                raise InputError(f"{where}: {key} contradicts {place.rpartition(', ')[2]}")
        elif (close := nearest(key, _KNOWN)) is not None and key[:3] == close[:3]:
            raise InputError(f"{where}: unknown key {key!r}; did you mean {close!r}?")
    formula = None
    if "job_sort_formula" in values:
        formula = parse_formula(*values["job_sort_formula"])
    needs_time = formula is not None and "eligible_time" in formula.names
    if needs_time and not _flag("eligible_time_enable", values, default=True):
        where = values["eligible_time_enable"][1]
        raise InputError(
            f"{where}: the formula has eligible_time, which eligible_time_enable needs"
        )
    if needs_time and "eligible_time_enable" not in values:
        aside.append("eligible_time is counted only with `set server eligible_time_enable = true`")
    if "strict_ordering" not in values:
        aside.append("strict_ordering: true is taken for granted; the default of PBS is false")
    depth = 1
    if "backfill_depth" in values:
        depth = _number(*values["backfill_depth"], "backfill_depth", (0, 1_000_000))
    strict = _flag("strict_ordering", values, default=True)
    return PbsConf(path, formula, depth, strict, queues, tuple(aside))


def _number(text: str, where: str, name: str, limits: tuple[int, int]) -> int:
    low, high = limits
    if not re.fullmatch(r"[+-]?\d{1,9}", text) or not low <= int(text) <= high:
        raise InputError(
            f"{where}: {name} is {printable(text[:80])!r}, expected a whole number from {low:,} to "
            f"{high:,}"
        )
    return int(text)


def _flag(name: str, values: Mapping[str, tuple[str, str]], *, default: bool) -> bool:
    """Return a boolean setting; sched_config lets a word such as ALL or prime follow it."""
    if name not in values:
        return default
    text, where = values[name]
    word = text.lower().split()[0] if text else ""
    if word not in _BOOLEAN:
        raise InputError(f"{where}: {name} is {printable(text[:80])!r}, expected true or false")
    return _BOOLEAN[word]
