"""Sums of rewards to the end of the episode, one row group at a time, for `Dataset.batches`.

    row group   r0  r1  r2 | r3  r4  end | r0  r1 ...
    sums        s0  s1  s2   s3  s4   0    s0  s1 ...       s2 = r2 + discount * s3

s3 is carried to the first row group. Row groups are read in random order, so what is carried is
computed in advance, from the last row group of a part to its first, and kept: a number per group.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hindcast.pipeline.dataset.part import Block, part_errors
from hindcast.pipeline.statistics.returns import discounted_sums, step_discounts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Discount:
    """The discount of a sum: `discount` per decision, or per simulated second."""

    discount: float
    per_second: bool = False

    def shares(self, elapsed_s: Floats) -> Floats:
        """Return the discount of all that follows each row, (R,)."""
        return step_discounts(elapsed_s, self.discount, per_second=self.per_second)

    def sums(
        self, episode: NDArray[np.int64], reward: Floats, elapsed_s: Floats, carried: float
    ) -> Floats:
        """Return the sums from consecutive rows (R,), the last of which goes on with `carried`."""
        shares = self.shares(elapsed_s)
        reward = reward.copy()
        reward[-1:] += shares[-1:] * carried
        return discounted_sums(episode, reward, shares)


def carried_sums(
    file: pq.ParquetFile, discounts: Mapping[str, Discount], path: Path
) -> dict[str, Floats]:
    """Return by name what is carried to each row group of a part from those after it, (G,).

    It is zero if the next row group begins with another episode. One row group of three columns is
    in memory at a time.
    """
    found = {name: np.zeros(file.num_row_groups) for name in discounts}
    first_episode, first_sums = -1, dict.fromkeys(discounts, 0.0)
    for group in reversed(range(file.num_row_groups)):
        with part_errors(path):
            table = file.read_row_group(group, ["episode", "reward", "elapsed_s"])
        episode, reward, elapsed_s = (_plain(table.column(i)) for i in range(3))
        if len(episode) == 0:
            continue
        for name, discount in discounts.items():
            carried = first_sums[name] if episode[-1] == first_episode else 0.0
            found[name][group] = carried
            first_sums[name] = float(discount.sums(episode, reward, elapsed_s, carried)[0])
        first_episode = int(episode[0])
    return found


def sums_of(
    block: Block, discounts: Mapping[str, Discount], carried: Mapping[str, float]
) -> dict[str, Floats]:
    """Return by name the sums from every row of a row group, (R,), given what is carried to it."""
    return {
        name: discount.sums(block.episode, block.reward, block.elapsed_s, carried[name])
        for name, discount in discounts.items()
    }


def _plain(column: Any) -> NDArray[Any]:
    """Return a column as an array, with zeros for nulls, which closing rows have."""
    return np.asarray(column.combine_chunks().fill_null(0).to_numpy(zero_copy_only=False))
