"""Architecture of the candidate scorer: settings, inputs and weight shapes.

    image    (B, P) uint8 / 255 -> activation(x W' + b), one dense layer, joined to the context
    inputs   candidates (M, F) -> expanded (M, E);  context (B, C) -> expanded (B, G), repeated
    layer 0  reads [candidate | context | image]; its activation is the encoding e (M, W)
    mlp        layer 1 reads e
    deepsets   layer 1 reads [e | mean of e | maximum of e] over the observation's feasible rows
    layers   y = activation(x W' + b); the last layer is linear with one output
    places   replaces all of the above: [context | image] -> one number per place, a linear layer;
             a candidate's score is that of its place, and no other column of its row is read

Scores depend neither on infeasible candidates nor on the order of the candidates. The weights are
those of `hindcast.policies.networks.candidate_scorer.CandidateScorer`.

Checkpoints of earlier versions may have a third kind, `AttentionSettings`, which acts but is not
trained: layer 1 reads e + self-attention of e over the observation's feasible rows.

Sources: Zaheer et al., "Deep Sets", NeurIPS 2017; Vaswani et al., "Attention Is All You Need",
NeurIPS 2017; the dense layer over the image is from Mao et al., "Resource Management with Deep
Reinforcement Learning", HotNets 2016, whose network is `places`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError, RecipeError, did_you_mean
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT
from hindcast.pipeline.simulation.spec import Feature, learned
from hindcast.policies.networks.features import FeatureMap, fit_map, unscaled_map
from hindcast.policies.networks.forward import ATTENTION, DEEPSETS, MLP
from hindcast.policies.networks.rules import NO_RULES, RuleColumns, find_rules

Weights = Mapping[str, NDArray[np.float32]]

KINDS: Final[Mapping[str, int]] = {"mlp": MLP, "deepsets": DEEPSETS, "attention": ATTENTION}
PLACE: Final = "place"  # the candidate feature with a row's place in the observation


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of the candidate scorer; RecipeError if they do not fit each other.

    Attributes:
        hidden: Widths of the hidden layers, each at least 1; empty for a linear score.
        activation: Function after every hidden layer, "relu" or "tanh".
        quadratic: Whether squares and products of the candidate's features are inputs.
        context: Whether the features of the context are inputs.
        kind: How a candidate's score depends on the other candidates: "mlp", not at all;
            "deepsets", by their mean and maximum, with at least two hidden layers.
        image: Width of the dense layer over the observation's image; 0 to ignore the image.
        logs: Whether logarithms of heavy-tailed features are inputs beside the features.
        places: Number of rows of an observation, for a score that depends only on context, image
            and the row's place; 0 for a score of the row.
        columns: Names of the candidate's features that are inputs, in any order; empty for all.
        rules: Names of rules whose choice and rank of the candidate are inputs
            (hindcast.policies.networks.rules); they take no part in squares and products.
    """

    hidden: tuple[int, ...] = number((), "from 1 to 65,536")
    activation: Literal["relu", "tanh"] = "relu"
    quadratic: bool = True
    context: bool = False
    kind: Literal["mlp", "deepsets"] = "mlp"
    image: int = number(0, "from 0 to 65,536")
    logs: bool = True
    places: int = number(0, "from 0 to 65,536")
    columns: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHEN_DEFAULT)
    rules: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHEN_DEFAULT)

    def __post_init__(self) -> None:
        check_ranges(self, "network")
        if self.places and not (self.image and not self.hidden and self.kind == "mlp"):
            raise RecipeError(
                f"network: places is {self.places}, which needs image above 0, hidden empty and "
                'kind "mlp", because the places follow the image\'s layer'
            )
        if self.places and (self.columns or self.rules):
            raise RecipeError(
                "network: places reads the row's place alone; leave columns and rules empty"
            )
        if self.kind == "deepsets" and len(self.hidden) < 2:
            raise RecipeError(
                f"network: hidden is {list(self.hidden)}, but deepsets needs at least two hidden "
                "layers; with fewer, pooling adds the same number to every score"
            )


@dataclass(frozen=True)
class AttentionSettings(NetworkSettings):
    """Settings of a checkpoint of version 0.1 whose candidates attend to each other.

    Attributes:
        kind: "attention".
        heads: Number of attention heads; must divide hidden[0].
        norm: Whether attention reads normalised encodings (pre-norm).
    """

    kind: Literal["attention"] = "attention"  # type: ignore[assignment]
    heads: int = number(2, "from 1 to 65,536")
    norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hidden or self.hidden[0] % self.heads:
            raise RecipeError(
                f"network: heads is {self.heads}, which does not divide the first of the hidden "
                f"layers {list(self.hidden)}"
            )


def dense(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the two weights of a dense layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def layer_shapes(
    settings: NetworkSettings, inputs: int, pixels: int = 0, outputs: int = 1
) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every weight, in the order in which compiled code reads them.

    The names are <layer>.weight (out, in) and <layer>.bias (out,). The layers are image, layer0,
    norm (weight (W,)), query, key, value, output, layer1, ..., as far as the settings have them.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if settings.image:
        shapes |= dense("image", settings.image, pixels)
    if settings.places:
        return shapes | dense("layer0", settings.places, inputs)
    for i, (before, after) in enumerate(pairwise((inputs, *settings.hidden, outputs))):
        pooled = 3 if i == 1 and settings.kind == "deepsets" else 1
        shapes |= dense(f"layer{i}", after, pooled * before)
        if i == 0 and isinstance(settings, AttentionSettings):
            if settings.norm:
                shapes["norm.weight"] = shapes["norm.bias"] = (after,)
            for part in ("query", "key", "value", "output"):
                shapes |= dense(part, after, after)
    return shapes


def read_columns(candidates: Sequence[Feature], settings: NetworkSettings) -> tuple[int, ...]:
    """Return the indices of the candidate features that a network of these settings reads.

    Raises RecipeError if settings with `places` do not fit the feature PLACE, or if one of
    `columns` is not a feature that a network may read.
    """
    if not settings.places:
        usable = {f.name: i for i, f in enumerate(candidates) if not f.identifier}
        for name in settings.columns:
            if name not in usable:
                raise RecipeError(
                    f"network: columns has {name!r}, expected features of a candidate; "
                    f"{did_you_mean(name, usable)}"
                )
        wanted = settings.columns or tuple(usable)
        return tuple(i for name, i in usable.items() if name in wanted)
    found = tuple(i for i, f in enumerate(candidates) if f.name == PLACE)
    if not found:
        raise RecipeError(
            f"network: places is {settings.places}, but no candidate feature is called {PLACE!r} "
            f"({', '.join(f.name for f in candidates)}); scenario slots has it with an image"
        )
    last = candidates[found[0]].high
    if math.isfinite(last) and settings.places != last + 1:  # a checkpoint stores no ranges
        raise RecipeError(
            f"network: places is {settings.places}, expected {last + 1:g}, the rows of an "
            "observation"
        )
    return found


def candidate_map(
    candidates: Sequence[Feature],
    settings: NetworkSettings,
    rows: NDArray[np.floating] | None = None,
    rules: RuleColumns = NO_RULES,
) -> FeatureMap:
    """Return the feature map of the candidates, standardised on raw training rows (M, F) if given.

    With R rules the rows are (M, F + 2R). Raises RecipeError as `read_columns` does.
    """
    columns = read_columns(candidates, settings)
    if settings.places:  # an index, not a quantity
        return unscaled_map(candidates, columns, quadratic=False, logs=False)
    first = len(candidates)
    columns = (*columns, *range(first, first + rules.width))
    features = rules.widened(candidates)
    return fit_map(features, columns, settings.quadratic, rows, settings.logs, rules.width)


@dataclass(frozen=True)
class Network:
    """A candidate scorer without its weights: settings, feature maps, input and output sizes.

    Attributes:
        settings: Settings of the scorer.
        candidates: Feature map of the candidates.
        context: Feature map of the context, without columns if settings.context is False.
        pixels: Number of pixels of the image input, 0 without an image.
        outputs: Numbers per candidate: 1 for a policy, 2 with a threshold.
        threshold: Above 0, the two outputs are a value and a log-likelihood, and the policy chooses
            the highest value among candidates whose likelihood is at least `threshold` times that
            of the likeliest; 0 to 1.
        rules: Rules whose columns follow the features of a candidate.
    """

    settings: NetworkSettings
    candidates: FeatureMap
    context: FeatureMap
    pixels: int = 0
    outputs: int = 1
    threshold: float = 0.0
    rules: RuleColumns = NO_RULES

    def __post_init__(self) -> None:
        if self.settings.places and self.outputs != 1:
            raise RecipeError(
                f"network: places is {self.settings.places}, which gives one number per candidate, "
                f"but this agent needs {self.outputs}; use places = 0"
            )

    @property
    def inputs(self) -> int:
        """Number of inputs of layer 0: candidate, context and image."""
        row = 0 if self.settings.places else self.candidates.size
        return row + self.context.size + self.settings.image

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        return layer_shapes(self.settings, self.inputs, self.pixels, self.outputs)

    @property
    def sees_others(self) -> bool:
        """True if a score depends on which other candidates are feasible."""
        return self.settings.kind != "mlp" or self.threshold > 0.0


def make_network(
    context: Sequence[Feature],
    candidates: Sequence[Feature],
    settings: NetworkSettings,
    pixels: int = 0,
    rows: NDArray[np.floating] | None = None,
    contexts: NDArray[np.floating] | None = None,
    scenario: str = "",
) -> Network:
    """Return a network over these features, standardised on raw training data if given.

    rows (M, F) are candidates, contexts (B, C). Settings with rules need the `scenario`, and rows
    with the columns of R rules, (M, F + 2R). Raises RecipeError as `read_columns` and `find_rules`
    do.
    """
    columns = learned(context) if settings.context else ()
    read = fit_map(context, columns, quadratic=False, rows=contexts, logs=settings.logs)
    rules = find_rules(scenario, settings.rules, candidates, context)
    width = len(candidates) + rules.width
    if rows is not None and rows.shape[1] < width:  # compiled code does no bounds checks
        raise DatasetError(f"candidates have {rows.shape[1]} columns, this network reads {width}")
    seen = candidate_map(candidates, settings, rows, rules)
    return Network(settings, seen, read, pixels, rules=rules)
