"""The parts of a scenario, and functions that the scenarios share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.kernel import Compiled
from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.schema import Workload

# Metadata of a settings field that a recipe leaves out if the field has its default value. Recipes
# that are older than the field thus keep their digests.
LEFT_OUT_WHEN_DEFAULT: Final[Mapping[str, bool]] = {"left_out_when_default": True}

# Metadata of a settings field that lists one item per window, unless it is empty. There are no
# windows beyond the list.
ONE_PER_WINDOW: Final[Mapping[str, bool]] = {"one_per_window": True}


class Future(Protocol):
    """A drawn future of an instance: it replaces what a copy of an episode has not shown yet."""

    @property
    def room(self) -> int:
        """Integers that a copy of an episode needs behind those of the instance."""

    @property
    def float_room(self) -> int:
        """Floats that a copy of an episode needs behind those of the instance."""

    @property
    def capacity(self) -> int:
        """Largest number of candidates that an observation of a copy can have."""

    def replace(self, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
        """Replace the parts of a copy that its episode has not shown yet, equally at equal moments.

        `ints` and `floats` have at least `room` and `float_room` places behind those of the
        instance.
        """


@dataclass(frozen=True)
class Instance:
    """One problem instance: the memory of an episode before its first decision.

    Attributes:
        ints: Integer memory, see hindcast.pipeline.simulation.kernel. Never changed: episodes copy
            it.
        floats: Floating-point memory. Never changed: episodes copy it.
        capacity: Largest number of candidates that an observation of this instance can have.
        futures: Function that draws a future of its episodes, for policies that look ahead, or
            None.
    """

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    capacity: int
    futures: Callable[[np.random.Generator], Future] | None = None


@dataclass(frozen=True)
class Demand:
    """Jobs of a trace in one window, before and after their rounding to the units of a scenario.

    Attributes:
        work: Core-seconds of the jobs in the trace.
        rounded: Core-seconds of the same jobs in the simulation.
    """

    work: float
    rounded: float


# Function of the integer memory of a finished episode: values of outcomes by block.
Blocks = Callable[[NDArray[np.int64]], Mapping[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Scenario:
    """A scheduling problem: its settings, its instances and its compiled functions.

    Attributes:
        name: Name of the scenario in recipes.
        config: Frozen dataclass of settings. Its fields are the keys of a recipe's [config].
        objectives: Names of the rewards that the scenario can pay.
        spec: Function (config, objective) -> Spec.
        windows: Function (config, workload) -> number of problem instances in the workload.
        instance: Function (config, objective, workload, window, rng) -> Instance. Raises InputError
            if the workload cannot be run under the settings.
        observe: Compiled function that fills an observation, see
            hindcast.pipeline.simulation.kernel.
        step: Compiled function that applies a choice.
        outcome: Compiled function that fills the outcomes.
        values: Compiled function that fills the value of every decision, in order, after the end of
            an episode. Needed if the spec is `valued`.
        forget: Compiled function that allows policies to look ahead, or None.
        imagines: Whether instances draw the jobs to come as futures, which also allows policies to
            look ahead.
        samples: Whether the futures of instances leave out the jobs to come, and draw what is not
            known of the others. A rule can look ahead in them to the end, as RULE@rollout.
        demand: Function (config, workload, window) -> Demand of a window of a trace, or None.
        stretch: Function (config, window) -> first job of a trace that a window counts, and the
            one after its last job; windows whose stretches overlap are not independent. None if
            windows never share jobs.
        load: Function (config, workload, window) -> offered load of a window of a trace, NaN if
            unknown: the processor time of its counted jobs over what the machine offers from the
            first to the last submission among them. None if there is no such number.
        blocks: Function (ints) -> values of some outcomes by block of a long episode, such as a
            week, of which the outcome is the mean. An evaluation of a single window has intervals
            over its blocks. Empty for an episode that is too short. None if there are no blocks.
        caveats: Function (config, workload) -> facts about a trace under the settings that limit a
            result, or None if there are none.
        added: Columns of the candidates that a setting adds, each with the name of the setting,
            which is true or false and changes nothing else. An evaluation gives every policy those
            that it reads, whatever the recipe says.
        references: Rules that every evaluation plays and compares with, beside those of its recipe.
            The policies of a recipe are in its digest, so a rule that is younger than published
            recipes stands here.
        bound: Name of the outcome that bounds the headline outcome, or None.
        bound_kind: "lower" or "upper": the direction of the bound.
        picture: Function (spec) -> panels of the picture of a state, or None if it has none.
        source: Paper to cite.
        differences: Differences from the paper, one or more sentences each. Dataset cards quote
            `source` and `differences`.
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
    imagines: bool = False
    samples: bool = False
    demand: Callable[[Any, Workload, int], Demand] | None = None
    stretch: Callable[[Any, int], tuple[int, int]] | None = None
    load: Callable[[Any, Workload, int], float] | None = None
    blocks: Blocks | None = None
    caveats: Callable[[Any, Workload], tuple[Caveat, ...]] | None = None
    added: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    bound: str | None = None
    bound_kind: str | None = None
    picture: Callable[[Spec], tuple[Panel, ...]] | None = None
    source: str = ""
    differences: tuple[str, ...] = ()

    @property
    def can_look_ahead(self) -> bool:
        """True if policies may play copies of an episode, whose future is hidden or drawn there."""
        return self.forget is not None or self.imagines or self.samples

    def shared_stretches(
        self, config: Any, windows: Sequence[int]
    ) -> tuple[tuple[int, int], ...] | None:
        """Return the jobs of the log that each window counts; None if no two windows share any."""
        if self.stretch is None or len(windows) < 2:
            return None
        found = tuple(self.stretch(config, window) for window in windows)
        ordered = sorted(found)
        shared = any(begin < stop for (_, stop), (begin, _) in pairwise(ordered))
        return found if shared else None


def config_for(scenario: Scenario, config: Any, policy: Any) -> Any:
    """Return settings under which candidates have the added columns that a policy reads.

    A learned policy gets no others, since it knows the columns that it was trained on.
    """
    features = getattr(policy, "features_candidates", None)
    if features is None:
        read = set(getattr(policy, "needs", ()))
        given = {setting: True for column, setting in scenario.added.items() if column in read}
    else:
        read = {feature.name for feature in features}
        given = {setting: column in read for column, setting in scenario.added.items()}
    return replace(config, **given) if given else config


def with_added(scenario: Scenario, config: Any) -> Any:
    """Return settings under which candidates have all columns that settings add."""
    return replace(config, **dict.fromkeys(scenario.added.values(), True))


LARGEST_INSTANCE: Final = 1 << 28  # numbers of 8 bytes: 2 GiB
DRAWN_WINDOWS: Final = 1_000_000  # of a scenario that draws its instances; any number works


def make_memory(
    int_header: int,
    int_blocks: Sequence[tuple[int, int, Any]],
    float_header: int,
    float_blocks: Sequence[tuple[int, int, Any]] = (),
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the memory of an episode: two headers of zeros, each followed by its blocks.

    A block is (place, length, values). ints[place] is set to the index at which the block begins.
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


def stack_memories(instances: Sequence[Instance]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the memories of instances as rows of two matrices, padded with zeros."""
    ints = np.zeros((len(instances), max(len(i.ints) for i in instances)), np.int64)
    floats = np.zeros((len(instances), max(len(i.floats) for i in instances)))
    for row, instance in enumerate(instances):
        ints[row, : len(instance.ints)] = instance.ints
        floats[row, : len(instance.floats)] = instance.floats
    return ints, floats


def require_room(numbers: float) -> None:
    """Raise InputError if an instance would need more than LARGEST_INSTANCE numbers.

    Called with an upper bound before anything is drawn, because settings can come from an untrusted
    dataset and the memory may not be available.
    """
    if not numbers <= LARGEST_INSTANCE:
        raise InputError(
            f"the settings in [config] need {numbers * 8 / 2**30:,.1f} GiB for a window, expected "
            f"at most {LARGEST_INSTANCE * 8 / 2**30:g} GiB; make the sizes smaller"
        )
