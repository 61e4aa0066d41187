"""The policy of a trained candidate scorer, by its compiled forward pass and without torch."""

from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError, HindcastError
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.players import EpisodeRunner
from hindcast.pipeline.simulation.policy import Heuristic, Reading
from hindcast.pipeline.simulation.rollout import Episode, GreedyEpisode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.policies.networks.features import rules_last
from hindcast.policies.networks.forward import PLACES, Form, NetworkArrays, score_rows, score_sets
from hindcast.policies.networks.rules import find_rules, rule_columns
from hindcast.policies.networks.settings import (
    KINDS,
    AttentionSettings,
    Network,
    NetworkSettings,
    Weights,
    read_columns,
)

_FEASIBLE: Final[tuple[Reading, ...]] = ("feasible",)


class LearnedPolicy:
    """A network with its weights, as a BatchPolicy.

    Attributes:
        name: Name in tables and datasets.
        network: Network without its weights.
        weights: Weights, float32 arrays by name.
        features_context: Features of the context in training.
        features_candidates: Features of the candidates in training.
    """

    def __init__(
        self,
        name: str,
        network: Any,  # a Network, or one of another architecture: hindcast.policies.networks
        weights: Weights,
        features_context: tuple[Feature, ...],
        features_candidates: tuple[Feature, ...],
    ) -> None:
        self.name = name
        self._checked: Spec | None = None  # the last spec that fits
        self.network: Network = network
        self.features_context = features_context
        self.features_candidates = features_candidates
        self.weights = {key: np.ascontiguousarray(weights[key]) for key in network.shapes}

    @property
    def reads(self) -> tuple[Reading, ...]:
        """Inputs besides context and candidates, any of "image" and "feasible"."""
        image: tuple[Reading, ...] = ("image",) if self.network.settings.image else ()
        others = self.network.sees_others or len(self.network.rules) > 0
        return (*image, *_FEASIBLE) if others else image

    @cached_property
    def arrays(self) -> NetworkArrays:
        """The network and its weights, in the form that compiled code takes."""
        network, settings = self.network, self.network.settings
        layers = dict.fromkeys(key.split(".")[0] for key in network.shapes)
        candidates, order = rules_last(network.candidates, network.rules.width)
        weights = dict(self.weights)
        if network.rules.width:
            first, moved = weights["layer0.weight"], [*order, *range(len(order), network.inputs)]
            weights["layer0.weight"] = first[:, moved]
        flat = [weights[f"{i}.{part}"].T.ravel() for i in layers for part in ("bias", "weight")]
        form = Form(
            tanh=settings.activation == "tanh",
            kind=PLACES if settings.places else KINDS[settings.kind],
            heads=settings.heads if isinstance(settings, AttentionSettings) else 1,
            norm=isinstance(settings, AttentionSettings) and settings.norm,
            seen=settings.image,
            ruled=network.rules.width,
            threshold=float(network.threshold),
        )
        widths = np.array([*settings.hidden, settings.places or network.outputs])
        return NetworkArrays(network.context, candidates, widths, form, np.concatenate(flat))

    def check(self, spec: Spec) -> None:
        """Raise DatasetError for a spec with other features, RecipeError for places or rules."""
        if spec is self._checked:  # an evaluation has one spec for all episodes
            return
        _check_features(self.name, "candidate", self.features_candidates, spec.candidates)
        if self.network.settings.context:
            _check_features(self.name, "context", self.features_context, spec.context)
        if isinstance(self.network.settings, NetworkSettings):  # others check their own columns
            read_columns(spec.candidates, self.network.settings)
            find_rules(spec.scenario, self.network.settings.rules, spec.candidates)
        pixels = int(np.prod(spec.image_shape)) if spec.image_shape else 0
        if self.network.settings.image and pixels != self.network.pixels:
            raise DatasetError(
                f"{self.name} was trained on images of {self.network.pixels} pixels, this scenario "
                f"setting has {pixels}; use the settings it was trained with"
            )
        self._checked = spec

    def led_by(self, rule: Heuristic) -> "LearnedPolicy | None":
        """Return the policy in which a rule makes a part of the choice; None if there is none."""
        del rule
        return None

    def episode_runner(
        self, scenario: Scenario, spec: Spec, instance: Instance, temperature: float, epsilon: float
    ) -> EpisodeRunner | None:
        """Return a compiled episode; None for a network of another architecture."""
        from hindcast.policies.networks.player import Decider, NetworkRunner

        if type(self) is not LearnedPolicy:
            return None
        self.check(spec)
        return NetworkRunner(Decider(self), scenario, spec, instance, temperature, epsilon)

    @property
    def greedy_episode(self) -> GreedyEpisode | None:
        """The function that plays a greedy episode; None for a network of another architecture."""
        return self._greedy_episode if type(self) is LearnedPolicy else None

    def _greedy_episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        from hindcast.policies.networks.player import Decider, NetworkRunner

        self.check(spec)
        return NetworkRunner(Decider(self), scenario, spec, instance).finish()

    def scores(self, observation: Observation) -> NDArray[np.float64]:
        """Return one score per candidate, (N,)."""
        image = None if observation.image is None else observation.image.reshape(1, -1)
        return self.batch_scores(
            observation.context[None],
            observation.candidates,
            np.array([0, len(observation.candidates)]),
            feasible=observation.feasible,
            image=image,
        )

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.float64]:
        """Return scores (sum of N,) of B observations; see pipeline.simulation.policy.BatchPolicy.

        feasible (sum of N,) is all true by default; image (B, P) is needed if it is in `reads`. The
        candidates of a network with R rules may have the 2R columns of its rules already. Raises
        HindcastError if the arrays do not fit each other.
        """
        width, further = len(self.features_candidates), self.network.rules.width
        known = further > 0 and candidates.shape[1:] == (width + further,)
        given = (context.shape[1:], candidates.shape[1:], len(context), int(offsets[-1]))
        expected = (
            (len(self.features_context),), (width + known * further,),
            len(offsets) - 1, len(candidates),
        )  # fmt: skip
        # Compiled code does no bounds checks. The context's width matters only if it is read.
        read = self.network.settings.context or (
            not known and self.network.rules.moment is not None
        )
        if given[1:] != expected[1:] or (read and given != expected):
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape} with "
                f"{len(offsets)} offsets up to {offsets[-1]} are not observations of "
                f"{len(self.features_context)} and {len(self.features_candidates)} features"
            )
        scores = np.empty(len(candidates))
        allowed = self._feasible(feasible, len(candidates))
        rows = np.ascontiguousarray(candidates, np.float64)
        if not known:
            rows = self.widened(context, rows, offsets, allowed)
        moments = np.ascontiguousarray(context, np.float64)
        places = np.ascontiguousarray(offsets, np.int64)
        if not self.network.sees_others and not self.network.settings.image:
            score_rows(moments, rows, places, self.arrays, scores)
            return scores
        score_sets(
            moments, rows, allowed, self._image(image, len(moments)), places, self.arrays, scores
        )
        return scores

    def widened(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        feasible: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return candidates (V, F) with the columns of the network's R rules, (V, F + 2R).

        The arrays are those of `batch_scores`.
        """
        if not len(self.network.rules):
            return candidates
        return rule_columns(self.network.rules, context, candidates, offsets, feasible)

    def _feasible(self, feasible: NDArray[np.bool_] | None, count: int) -> NDArray[np.bool_]:
        if feasible is None:
            return np.ones(count, np.bool_)
        if feasible.shape != (count,):
            raise HindcastError(
                f"{self.name}: feasible {feasible.shape} does not fit {count} candidates"
            )
        return np.ascontiguousarray(feasible, np.bool_)

    def _image(self, image: NDArray[np.uint8] | None, count: int) -> NDArray[np.uint8]:
        if not self.network.settings.image:
            return np.zeros((count, 0), np.uint8)
        expected = (count, self.network.pixels)
        if image is None or image.shape != expected:
            shape = "none" if image is None else image.shape
            raise HindcastError(f"{self.name}: expected images {expected}, got {shape}")
        return np.ascontiguousarray(image, np.uint8)


def _check_features(
    policy: str, kind: str, trained: tuple[Feature, ...], given: tuple[Feature, ...]
) -> None:
    """Raise DatasetError unless names, units and kinds of columns agree, in order."""
    if len(trained) != len(given):
        before, here = [f.name for f in trained], [f.name for f in given]
        missing = ", ".join(name for name in before if name not in here) or "none"
        more = ", ".join(name for name in here if name not in before) or "none"
        raise DatasetError(
            f"{policy} was trained on {len(trained)} {kind} features ({', '.join(before)}), this "
            f"scenario setting has {len(given)} (without: {missing}; more: {more}); use the "
            "settings it was trained with"
        )
    for at, (one, other) in enumerate(zip(trained, given, strict=True)):
        for what in ("name", "unit", "heavy_tailed", "identifier"):
            if getattr(one, what) != getattr(other, what):
                raise DatasetError(
                    f"{policy}: {kind} feature {at} was {one.name!r} with {what} "
                    f"{getattr(one, what)!r} in training, here it is {other.name!r} with {what} "
                    f"{getattr(other, what)!r}; use the settings it was trained with"
                )
