"""What a scenario is made of, and the registry of those that exist."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.simulation.kernel import Compiled
from pipeline.simulation.spec import Spec
from pipeline.workloads.schema import Workload

# Metadata of a field of settings that a recipe does not state where the field has its default, so
# that recipes from before there was such a field keep their digests.
LEFT_OUT_WHEN_DEFAULT: Final[Mapping[str, bool]] = {"left_out_when_default": True}


@dataclass(frozen=True)
class Instance:
    """One problem instance, ready to run: the memory of an episode before its first decision.

    ints, floats   the memory (see pipeline.simulation.kernel); never changed, every episode copies
    it
    capacity       the most candidates that an observation of this instance can have
    """

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    capacity: int


@dataclass(frozen=True)
class Scenario:
    """A scheduling problem: its settings, its instances, its compiled transition.

    config      frozen dataclass of settings; its fields are the keys of a recipe's [config]
    objectives  names of the rewards that it can pay
    windows     (config, workload) -> how many problem instances the workload gives
    instance    (config, objective, workload, window, rng) -> Instance; raises InputError where
                the workload cannot be run under the settings
    values      compiled like `outcome`: after the end of an episode, the value of every decision
                in order; needed where the spec is `valued`
    forget      compiled (pipeline.simulation.kernel), or None: it allows policies that look ahead
    bound       outcome that bounds the headline outcome, or None; `bound_kind` says which way
    source      the paper to cite
    differences from the paper, a sentence or more each; cards quote both
    """

    name: str
    config: type[Any]
    objectives: tuple[str, ...]
    spec: Callable[[Any, str], Spec]
    windows: Callable[[Any, Workload], int]
    instance: Callable[[Any, str, Workload, int, np.random.Generator], Instance]
    observe: Compiled
    step: Compiled
    outcome: Compiled
    values: Compiled | None = None
    forget: Compiled | None = None
    bound: str | None = None
    bound_kind: str | None = None
    source: str = ""
    differences: tuple[str, ...] = ()


LARGEST_INSTANCE: Final = 1 << 28  # numbers of 8 bytes: 2 GiB
DRAWN_WINDOWS: Final = 1_000_000  # windows of a scenario that draws its instances: any will do


def make_memory(
    int_header: int,
    int_blocks: Sequence[tuple[int, int, Any]],
    float_header: int,
    float_blocks: Sequence[tuple[int, int, Any]] = (),
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the memory of an episode: headers of zeros, then the blocks one after the other.

    A block is (place, length, values); ints[place] says where it begins in its array.
    """
    ints = np.zeros(int_header + sum(length for _, length, _ in int_blocks), np.int64)
    floats = np.zeros(float_header + sum(length for _, length, _ in float_blocks))
    array: NDArray[Any]
    for array, begin, blocks in (
        (ints, int_header, int_blocks),
        (floats, float_header, float_blocks),
    ):
        at = begin
        for place, length, values in blocks:
            ints[place] = at
            array[at : at + length] = values
            at += length
    return ints, floats


def stack_memories(
    instances: Sequence[Instance],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the memories of instances as rows of two matrices, padded with zeros."""
    ints = np.zeros((len(instances), max(len(i.ints) for i in instances)), np.int64)
    floats = np.zeros((len(instances), max(len(i.floats) for i in instances)))
    for row, one in enumerate(instances):
        ints[row, : len(one.ints)] = one.ints
        floats[row, : len(one.floats)] = one.floats
    return ints, floats


def require_at_least(config: Any, **least: float) -> None:
    """Raise InputError where a setting is below its least value."""
    for name, low in least.items():
        if getattr(config, name) < low:
            raise InputError(
                f"config.{name} is {getattr(config, name):g}, expected at least {low:g}"
            )


def require_room(numbers: float) -> None:
    """InputError where the settings ask for an instance of more than LARGEST_INSTANCE numbers.

    Called with an upper bound before anything is drawn: settings may come with a dataset from
    anywhere, and memory that is promised is not always there.
    """
    if not numbers <= LARGEST_INSTANCE:
        raise InputError(
            f"the settings make a window of {numbers * 8 / 2**30:,.1f} GiB, more than "
            f"{LARGEST_INSTANCE * 8 / 2**30:g}; make [config] smaller"
        )
