"""Columns of a page: whole numbers as bytes that compress well, and the text that holds them.

A column is coded as differences, to another column or to its own previous number, since jobs that
follow each other and schedules of the same jobs differ by little. A difference d is written as
2 d, or -2 d - 1 if it is negative. All first bytes stand before all second bytes, and so on.

Times are multiples of 1 / `scale` seconds. Where no decimal scale gives every time back exactly,
`scale` is 0, and columns of times hold the eight bytes of each float64. Features of a dataset are
float32, and `planes` is 4 there.
"""

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SCALES: Final = (1, 10, 100, 1000, 10_000)
_EXACT: Final = 2**53  # float64, which the page computes in, has every whole number up to this one


@dataclass(frozen=True)
class Column:
    """Coded numbers.

    Attributes:
        data: The bytes.
        length: How many numbers.
        planes: Bytes of each number.
        base: Name of the column that the differences are to, "previous", or "" for the numbers
            themselves.
        scale: What the numbers are divided by; 0 for float64.
    """

    data: bytes
    length: int
    planes: int
    base: str
    scale: int

    @property
    def about(self) -> list[Any]:
        """Length, planes, base and scale of the column, which a reader of the page needs."""
        return [self.length, self.planes, self.base, self.scale]


def scale_of(columns: Iterable[NDArray[np.float64]]) -> int:
    """Return the least scale that gives all times back exactly, or 0; NaN does not count."""
    times = np.concatenate([*columns, np.zeros(1)])
    times = times[~np.isnan(times)]
    for scale in _SCALES:
        whole = np.rint(times * scale)
        if np.abs(whole).max() < _EXACT / 4 and (whole / scale == times).all():
            return scale
    return 0


def coded(
    numbers: NDArray[Any], base: str = "", beside: NDArray[Any] | None = None, scale: int = 1
) -> Column:
    """Return a column of numbers without NaN, coded as differences to `beside` if it is given."""
    if not scale:
        return Column(numbers.astype("<f8").tobytes(), len(numbers), 8, "", 0)
    whole = np.rint(numbers * scale).astype(np.int64)
    if base == "previous":
        whole = np.diff(whole, prepend=0)
    elif beside is not None:
        whole = whole - np.rint(beside * scale).astype(np.int64)
    plain = np.where(whole < 0, -2 * whole - 1, 2 * whole).astype("<u8")
    planes = max(1, (int(plain.max(initial=0)).bit_length() + 7) // 8)
    data = plain.view(np.uint8).reshape(-1, 8)[:, :planes].T
    return Column(data.tobytes(), len(numbers), planes, base, scale)


def single(numbers: NDArray[np.float32]) -> Column:
    """Return a column of float32."""
    return Column(numbers.astype("<f4").tobytes(), numbers.size, 4, "", 0)


def text_of(facts: Mapping[str, Any], columns: Mapping[str, Column]) -> str:
    """Return facts and columns, compressed, in letters that mean nothing to HTML."""
    about = {**facts, "columns": {name: column.about for name, column in columns.items()}}
    head = json.dumps(about, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    data = b"".join(column.data for column in columns.values())
    return base64.b64encode(zlib.compress(struct.pack("<I", len(head)) + head + data, 9)).decode()
