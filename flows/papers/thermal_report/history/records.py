"""History files: logged transitions of a data centre of six servers, as JSON.

    [ {"TIME": 0, "STATE": S0, "ACTION": 5, "REWARD": {"REWARD": 27.0}, "NEXT_STATE": S1}, ... ]

    S = {"SERVER_STATE": {"0": {RESOURCE, X, Y, USAGE, ENERGY, HEAT, IS_VALID}, ..., "5": ...},
         "JOB_STATE":    {SUBMIT_TIME, DEADLINE, PROCESS_TIME, RESOURCES, FINISH_TIME},
         "DC":           {TOTAL_HEAT}}

Values are found by their keys, in any order. IS_VALID is 1 if the server can finish the job in
time. FINISH_TIME is null if it is not known: written before the decision, it would reveal the
decision. Other keys are left out and listed in `History.unknown_keys`.

Source: L. Dong, "Solution on Data Center Job Scheduling Problem", 2018, Figure 4.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, nearest
from hindcast.pipeline.storage.files import require_file

SERVERS: Final = 6
SERVER_KEYS: Final = ("RESOURCE", "X", "Y", "USAGE", "ENERGY", "HEAT", "IS_VALID")
JOB_KEYS: Final = ("SUBMIT_TIME", "DEADLINE", "PROCESS_TIME", "RESOURCES", "FINISH_TIME")
RESOURCE, X, Y, USAGE, ENERGY, HEAT, IS_VALID = range(7)
SUBMIT_TIME, DEADLINE, PROCESS_TIME, RESOURCES, FINISH_TIME = range(5)

_ELSEWHERE: Final = (
    "decisions in another layout are read by `hindcast ingest decisions`, with a mapping that "
    "`hindcast init` writes"
)
_RECORD_KEYS: Final = ("TIME", "STATE", "ACTION", "REWARD", "NEXT_STATE")
_STATE_KEYS: Final = ("SERVER_STATE", "JOB_STATE", "DC")
_NAMES: Final = tuple(str(server) for server in range(SERVERS))
_FRACTIONS: Final = frozenset({USAGE, ENERGY, HEAT})  # written with a fraction even if whole
_LARGEST: Final = float(np.finfo(np.float32).max)  # of a float32 column of a dataset
_LARGEST_WHOLE: Final = 2**53


@dataclass(frozen=True)
class States:
    """States of R records.

    Attributes:
        servers: (R, 6, 7) float64, in the order of SERVER_KEYS.
        job: (R, 5) float64, in the order of JOB_KEYS; NaN for a FINISH_TIME of null.
        total_heat: (R,) float64.
    """

    servers: NDArray[np.float64]
    job: NDArray[np.float64]
    total_heat: NDArray[np.float64]

    def rows(self, at: NDArray[np.int64]) -> "States":
        """Return the states of these records."""
        return States(*(array[at] for array in self.arrays))

    @property
    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Servers, job, total heat."""
        return self.servers, self.job, self.total_heat


@dataclass(frozen=True)
class History:
    """The records of a history file: time, action (R,) int64, reward (R,) float64, states."""

    time: NDArray[np.int64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    state: States
    next_state: States
    unknown_keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time)


def read_history(path: Path) -> History:
    """Read a history file.

    Raises InputError that names the file and, if a record is bad, the record and the key.
    """
    try:
        if path.exists():
            require_file(path, links=True)  # a FIFO or device would never end
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, expected a history file (JSON)") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of 5,000 digits
        raise InputError(
            f"{path}: this file is not valid JSON ({error}), expected a history file of thermal; "
            f"{_ELSEWHERE}"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: this file cannot be read ({error.strerror})") from error
    return parse_history(value, str(path))


def parse_history(value: Any, where: str) -> History:
    """Return a history from parsed JSON; `where` is the file that errors name."""
    if not isinstance(value, list):
        raise InputError(
            f"{where}: the file holds a JSON {_kind(value)}, expected a list of records; "
            f"{_ELSEWHERE}"
        )
    if not value:
        raise InputError(f"{where}: the file has no records, expected at least one")
    reader = _Reader()
    n = len(value)
    history = History(
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), _states(n), _states(n)
    )
    for row, record in enumerate(value):
        reader.where = f"{where}: record {row}"
        reader.check_keys(record, _RECORD_KEYS, "")
        reader.read_state(record["STATE"], "STATE", history.state, row)
        reader.read_state(record["NEXT_STATE"], "NEXT_STATE", history.next_state, row)
        reader.check_keys(record["REWARD"], ("REWARD",), "REWARD.")
        history.reward[row] = reader.number(record["REWARD"]["REWARD"], "REWARD.REWARD")
        history.time[row] = reader.whole(record["TIME"], "TIME")
        history.action[row] = _action(reader, record["ACTION"], history.state.servers[row])
    return History(
        history.time, history.action, history.reward, history.state, history.next_state,
        tuple(sorted(reader.unknown)),
    )  # fmt: skip


def _states(n: int) -> States:
    return States(
        np.zeros((n, SERVERS, len(SERVER_KEYS))), np.zeros((n, len(JOB_KEYS))), np.zeros(n)
    )


def _action(reader: "_Reader", value: Any, servers: NDArray[np.float64]) -> int:
    action = reader.whole(value, "ACTION")
    if not 0 <= action < SERVERS:
        raise InputError(f"{reader.where}: ACTION is {action}, expected a server, 0..{SERVERS - 1}")
    if servers[action, IS_VALID] == 0:
        raise InputError(
            f"{reader.where}: ACTION is {action}, but STATE.SERVER_STATE.{action}.IS_VALID is 0, "
            "expected a valid server"
        )
    return action


class _Reader:
    """Reader of values from one record after the other; errors name the record in `where`."""

    def __init__(self) -> None:
        self.where = ""
        self.unknown: set[str] = set()

    def check_keys(self, value: Any, keys: tuple[str, ...], path: str) -> None:
        """Refuse a value that is no object or lacks a key; keep the names of unknown keys."""
        if not isinstance(value, Mapping):
            name = path.rstrip(".") or "the record"
            raise InputError(f"{self.where}: {name} is a {_kind(value)}, expected an object")
        for key in keys:
            if key not in value:
                close = nearest(key, [k for k in value if k not in keys])
                hint = f"; it has {close!r}" if close else ""
                other = f"; {_ELSEWHERE}" if not close and not path else ""
                raise InputError(f"{self.where}: the key {path}{key} is missing{hint}{other}")
        if len(value) > len(keys):
            self.unknown.update(path + key for key in value if key not in keys)

    def number(self, value: Any, key: str) -> float:
        """Return a finite number; raise InputError for anything else."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{self.where}: {key} is {_shown(value)}, expected a number")
        if not abs(value) <= _LARGEST:
            raise InputError(f"{self.where}: {key} is {_shown(value)}, expected a finite number")
        return float(value)

    def whole(self, value: Any, key: str) -> int:
        """Return a whole number; raise InputError for anything else."""
        number = self.number(value, key)
        if not number.is_integer() or abs(number) > _LARGEST_WHOLE:
            raise InputError(f"{self.where}: {key} is {_shown(value)}, expected a whole number")
        return int(number)

    def read_state(self, value: Any, path: str, states: States, row: int) -> None:
        """Fill row `row` of `states`."""
        self.check_keys(value, _STATE_KEYS, f"{path}.")
        servers = value["SERVER_STATE"]
        if isinstance(servers, Mapping) and len(servers) != SERVERS:
            raise InputError(
                f"{self.where}: {path}.SERVER_STATE has {len(servers)} servers, expected {SERVERS}"
            )
        self.check_keys(servers, _NAMES, f"{path}.SERVER_STATE.")
        for server, name in enumerate(_NAMES):
            at = f"{path}.SERVER_STATE.{name}."
            self.check_keys(servers[name], SERVER_KEYS, at)
            for column, key in enumerate(SERVER_KEYS):
                read = self._flag if column == IS_VALID else self.number
                states.servers[row, server, column] = read(servers[name][key], at + key)
        at = f"{path}.JOB_STATE."
        self.check_keys(value["JOB_STATE"], JOB_KEYS, at)
        for column, key in enumerate(JOB_KEYS):
            given = value["JOB_STATE"][key]
            unknown = given is None and column == FINISH_TIME
            states.job[row, column] = math.nan if unknown else self.number(given, at + key)
        self.check_keys(value["DC"], ("TOTAL_HEAT",), f"{path}.DC.")
        states.total_heat[row] = self.number(value["DC"]["TOTAL_HEAT"], f"{path}.DC.TOTAL_HEAT")

    def _flag(self, value: Any, key: str) -> float:
        if value not in (0, 1):  # True and False are equal to these
            raise InputError(f"{self.where}: {key} is {_shown(value)}, expected 0 or 1")
        return float(value)


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _shown(value: Any) -> str:
    return json.dumps(value)[:40]


def record_json(history: History, row: int) -> dict[str, Any]:
    """Return one record as written to a file."""
    return {
        "TIME": int(history.time[row]),
        "STATE": _state_json(history.state, row),
        "ACTION": int(history.action[row]),
        "REWARD": {"REWARD": float(history.reward[row])},
        "NEXT_STATE": _state_json(history.next_state, row),
    }


def _state_json(states: States, row: int) -> dict[str, Any]:
    servers = states.servers[row].tolist()
    job = states.job[row].tolist()
    return {
        "SERVER_STATE": {
            name: {
                key: value if column in _FRACTIONS else _plain(value)
                for column, (key, value) in enumerate(zip(SERVER_KEYS, server, strict=True))
            }
            for name, server in zip(_NAMES, servers, strict=True)
        },
        "JOB_STATE": {key: _plain(value) for key, value in zip(JOB_KEYS, job, strict=True)},
        "DC": {"TOTAL_HEAT": float(states.total_heat[row])},
    }


def _plain(value: float) -> float | None:
    """Return whole numbers without a fraction, NaN as None."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else value


def write_records(path: Path, histories: Iterable[History]) -> None:
    """Write the records of several histories to one file, without holding all in memory."""
    encode: Callable[[Any], str] = partial(json.dumps, separators=(",", ":"), allow_nan=False)
    with path.open("w", encoding="utf-8") as file:
        separator = "["
        for history in histories:
            for row in range(len(history)):
                file.write(separator + encode(record_json(history, row)))
                separator = ",\n"
        file.write("]\n" if separator != "[" else "[]\n")
