"""Conditions on episodes: which rows of a table of episodes are kept."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean, unknown_name

_PIECE: Final = re.compile(r"(\d{1,15})(?:\.\.(\d{1,15}))?")
_LONGEST: Final = 2000  # characters of an SQL condition; a longer one takes minutes to read
# Words of SQL that read other tables, files and URLs.
_ELSEWHERE: Final = re.compile(r"\b(select|from|values|table|(read|scan)_\w+)\b", re.IGNORECASE)
_NOT_COMPARED: Final = ("behaviour_parameters",)  # a list


@dataclass(frozen=True)
class Conditions:
    """Conditions that an episode has to meet, all that are given.

    Attributes:
        split: Names of splits.
        behaviour: Names of behaviours.
        window: Windows, such as "3,12..20".
        episodes: Numbers of the episodes that are kept, in the same form.
        drop_episodes: Numbers of episodes that are left out.
        where: A condition on the columns of the table of episodes, as SQL: "return < -50".
    """

    split: Sequence[str] = ()
    behaviour: Sequence[str] = ()
    window: str = ""
    episodes: str = ""
    drop_episodes: str = ""
    where: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The conditions that are given, as JSON."""
        given = {name: value for name, value in asdict(self).items() if value}
        return {k: v if isinstance(v, str) else list(v) for k, v in given.items()}

    @property
    def before(self) -> "Conditions | None":
        """The conditions that hold for a decision in no episode; None if none of them can."""
        return None if self.where or self.episodes else replace(self, drop_episodes="")

    def kept(self, table: pl.DataFrame) -> NDArray[np.bool_]:
        """Return which rows of a table of episodes meet the conditions; a null meets none.

        Raises InputError for a name, a number or a column that the table does not have.
        """
        found = np.ones(table.height, bool)
        for column in ("split", "behaviour"):
            if names := getattr(self, column):
                known = table[column].unique(maintain_order=True).to_list()
                for name in names:
                    if name not in known:
                        raise unknown_name(column, name, known)
                found &= table[column].is_in(list(names)).to_numpy()
        for column, option in (
            ("window", "window"), ("episode", "episodes"), ("episode", "drop_episodes"),
        ):  # fmt: skip
            if text := getattr(self, option):
                flag = f"--{option.replace('_', '-')}"
                chosen = _within(table[column], text, flag)
                found &= ~chosen if option == "drop_episodes" else chosen
        return found & _meets(table, self.where) if self.where else found


def _within(values: pl.Series, text: str, flag: str) -> NDArray[np.bool_]:
    """Return which values lie in the ranges of a text, of which each has to hold one."""
    numbers = values.to_numpy()
    found = np.zeros(len(numbers), bool)
    for piece in text.split(","):
        match = _PIECE.fullmatch(piece.strip())
        if match is None:
            raise InputError(f"{flag} {text!r}: expected numbers or ranges, such as 3,12..20")
        first = int(match[1])
        inside = (numbers >= first) & (numbers <= int(match[2] or first))
        if not inside.any():
            raise InputError(
                f"{flag}: there is no {values.name} {piece.strip()}, expected some of "
                f"{values.min()!s} to {values.max()!s}"
            )
        found |= inside
    return found


def _meets(table: pl.DataFrame, where: str) -> NDArray[np.bool_]:
    """Return which rows meet an SQL condition on the columns of the table."""
    if len(where) > _LONGEST or _ELSEWHERE.search(where):
        raise InputError(
            "--where: expected a condition on the columns of the table of episodes, without "
            f"SELECT, FROM or functions that read files, of up to {_LONGEST:,} characters"
        )
    columns = table.drop(_NOT_COMPARED, strict=False)
    try:
        expression = pl.sql_expr(where)
        for name in expression.meta.root_names():
            if name not in columns.columns:
                raise InputError(
                    f"--where {where!r}: unknown column {name!r}; "
                    f"{did_you_mean(name, columns.columns)}"
                )
        found = columns.select(expression.alias("where")).to_series()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(f"--where {where!r}: this condition cannot be used ({reason})") from error
    if found.dtype != pl.Boolean or len(found) != table.height:
        raise InputError(
            f"--where {where!r}: expected a condition on each episode, such as 'return < -50'"
        )
    return found.fill_null(value=False).to_numpy()
