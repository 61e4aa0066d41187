"""Checkpoints that are safe to load from anywhere: JSON and safetensors, never a pickle.

<folder>/weights.safetensors    layer<i>.weight, layer<i>.bias, float32
<folder>/checkpoint.json        written last: a folder without it is not a checkpoint

checkpoint.json has these keys:

    format, version, agent, scenario, objective
    features         context, candidates
    network          settings of the network
    rules            digests of the rules whose columns the network reads, by name; not always there
    acting           pixels of the image, threshold of a constrained choice; both 0 if missing
    normalisation    mean and inverse of both feature maps
    weights          bytes, sha256
    training         steps, seed, config, metrics, package versions, provenance of the data
    sealed           SHA-256 of all other keys as JSON on one line
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.settings.reading import read_settings
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.pipeline.storage.files import (
    json_text,
    local_copy,
    make_folder,
    read_json,
    require_file,
    sha256_file,
    sha256_text,
    write_bytes,
    write_json,
)
from hindcast.pipeline.storage.run_files import DESCRIPTION, WEIGHTS
from hindcast.pipeline.storage.versions import package_versions, version
from hindcast.policies.networks import ARCHITECTURES, AnyNetwork, acting
from hindcast.policies.networks.features import FeatureMap
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import (
    AttentionSettings,
    Network,
    NetworkSettings,
    Weights,
    make_network,
)

FORMAT: Final = "hindcast-checkpoint"
VERSION: Final = 1
_PACKAGES: Final = ("numpy", "torch", "d3rlpy", "safetensors")
_PICKLES: Final = ("*.pt", "*.pth", "*.d3", "*.pkl", "*.pickle", "*.bin", "*.ckpt")
_WIDEST: Final = 4096
_DEEPEST: Final = 8
_MOST_PIXELS: Final = 1 << 20
_MOST_FEATURES: Final = 4096
_LONGEST_NAME: Final = 200
_LONGEST_HEADER: Final = 100 << 20  # limit of the safetensors format


@dataclass(frozen=True)
class Metric:
    """One point of a training curve."""

    step: int
    metric: str
    value: float


@dataclass(frozen=True)
class Trained:
    """Result of a training run: the network, its final weights, provenance and curves.

    Attributes:
        agent: Name of the agent.
        spec: Spec of the scenario setting.
        network: Network without its weights.
        weights: Final weights, float32 arrays by name.
        config: Settings of the agent, as JSON.
        steps: Number of training steps.
        seed: Seed of the run.
        metrics: Training curves.
        best: The best checkpoint by validation score; None without validation.
    """

    agent: str
    spec: Spec
    network: AnyNetwork
    weights: Weights
    config: Mapping[str, Any]
    steps: int
    seed: int
    metrics: tuple[Metric, ...] = ()
    best: "Selected | None" = None

    def policy(self, name: str | None = None) -> LearnedPolicy:
        """Return the policy as loaded from a checkpoint; its name is the agent's by default."""
        return acting(
            name or self.agent, self.network, self.weights, self.spec.context, self.spec.candidates
        )


@dataclass(frozen=True)
class Selected:
    """The best checkpoint of a training run and its validation score (higher is better)."""

    step: int
    metric: str
    score: float
    weights: Weights


def weights_content(weights: Weights) -> bytes:
    """Return the bytes of weights.safetensors."""
    # Not save_file: it uses a temporary file, which a kill would leave behind.
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}
    )


def require_finite(trained: Trained) -> None:
    """Raise DatasetError for a training that diverged: a weight is not finite."""
    for name, value in trained.weights.items():
        if not np.isfinite(value).all():
            raise DatasetError(
                f"{trained.agent}: {name} is not finite after {trained.steps} steps; training "
                "diverged, try a lower learning rate"
            )


def save(trained: Trained, folder: Path, provenance: Mapping[str, Any] | None = None) -> Path:
    """Write a checkpoint and return its folder.

    `provenance` is JSON about the data (dataset digest, recipe id and digest). Raises StorageError
    if the folder cannot be written, DatasetError if a weight is not finite.
    """
    require_finite(trained)
    content = weights_content(trained.weights)
    description = _sealed(_describe(trained, content, provenance or {}))
    make_folder(folder)
    if not _holds(folder / WEIGHTS, content):
        # A checkpoint that is being replaced must not pair its old description with new weights.
        (folder / DESCRIPTION).unlink(missing_ok=True)
        write_bytes(folder / WEIGHTS, content)
    write_json(folder / DESCRIPTION, description)
    return folder


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content


def _describe(trained: Trained, content: bytes, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return checkpoint.json without its seal; `content` are the bytes of the weights' file."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": trained.agent,
        "scenario": trained.spec.scenario,
        "objective": trained.spec.objective,
        "features": {
            "context": [_feature(f) for f in trained.spec.context],
            "candidates": [_feature(f) for f in trained.spec.candidates],
        },
        **_describe_network(trained.network),
        "weights": {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
        "training": {
            **provenance,
            "steps": trained.steps,
            "seed": trained.seed,
            "config": trained.config,
            "packages": {"hindcast": version(), **package_versions(_PACKAGES)},
            "metrics": [dataclasses.asdict(m) for m in trained.metrics if math.isfinite(m.value)],
        },
    }


def _describe_network(network: AnyNetwork) -> dict[str, Any]:
    """Return the keys of checkpoint.json that describe a network without its weights."""
    return {
        "network": _settings(network.settings),
        **_rules(network),
        "acting": {"pixels": network.pixels, "threshold": network.threshold},
        "normalisation": {
            "candidates": _constants(network.candidates),
            "context": _constants(network.context),
        },
    }


def network_digest(network: AnyNetwork) -> str:
    """Return a digest of a network without its weights: settings, rules and normalisation."""
    return sha256_text(json.dumps(_describe_network(network), sort_keys=True))


def _rules(network: AnyNetwork) -> dict[str, Any]:
    rules = network.rules
    digests = dict(zip(rules.names, rules.digests, strict=True))
    return {"rules": digests} if digests else {}


def _settings(settings: Any) -> dict[str, Any]:
    """Return settings as a table, without fields LEFT_OUT_WHEN_DEFAULT that have their default."""
    table = dataclasses.asdict(settings)
    for field in dataclasses.fields(settings):
        if (
            field.metadata.items() >= LEFT_OUT_WHEN_DEFAULT.items()
            and table[field.name] == field.default
        ):
            del table[field.name]
    return table


def _feature(feature: Feature) -> dict[str, Any]:
    kept = ("name", "unit", "heavy_tailed", "identifier")
    return {key: getattr(feature, key) for key in kept}


def _constants(feature_map: FeatureMap) -> dict[str, list[float]]:
    return {"mean": feature_map.mean.tolist(), "inverse": feature_map.inverse.tolist()}


def load_policy(folder: Path) -> LearnedPolicy:
    """Return the policy in a checkpoint folder; raise DatasetError if it is not a checkpoint.

    Nothing in the folder is ever unpickled.
    """
    description = read_description(folder)
    where = str(folder / DESCRIPTION)
    try:
        features = description["features"]
        context = _read_features(features["context"])
        candidates = _read_features(features["candidates"])
        network = _read_any(description, context, candidates, "network")
        digests = description.get("rules", {})
        weights = _read_weights(folder, network, description["weights"])
        agent, training = description["agent"], description["training"]
        seed, steps = training["seed"], training["steps"]
    except KeyError as error:
        raise DatasetError(f"{where}: key {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, AttributeError, OverflowError, RecipeError) as error:
        raise DatasetError(f"{where}: {error}") from error
    if not isinstance(agent, str) or len(agent) > _LONGEST_NAME:
        raise DatasetError(
            f"{where}: agent is {agent!r}, expected a name of at most {_LONGEST_NAME} characters"
        )
    if not (type(seed) is int and type(steps) is int):
        raise DatasetError(f"{where}: training.seed and training.steps must be whole numbers")
    if not isinstance(digests, dict):
        raise DatasetError(f"{where}: rules is {type(digests).__name__}, expected a table")
    network.rules.require(digests, where)
    # A checkpoint from before seals has neither key; no single damage removes both.
    sealed = "sealed" in description or "acting" in description
    if sealed and (folder / DESCRIPTION).read_bytes() != json_text(_sealed(description)).encode():
        raise DatasetError(f"{where}: the file has changed since it was written (its seal differs)")
    return acting(agent, network, weights, context, candidates)


def _read_any(
    description: dict[str, Any],
    context: tuple[Feature, ...],
    candidates: tuple[Feature, ...],
    where: str,
) -> AnyNetwork:
    """Return the network of a description, a candidate scorer or one of ARCHITECTURES."""
    value, constants = description["network"], description["normalisation"]
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind != "mlp" and kind in ARCHITECTURES:  # the first asks nobody
        form = ARCHITECTURES[kind]
        plain = form.network(read_settings(form.settings, value, where), context, candidates)
    else:
        settings = _read_scorer_settings(value, where)
        scenario, acting = description["scenario"], description.get("acting", {})
        plain = _read_scorer(settings, context, candidates, acting, scenario)
    scaled: AnyNetwork = dataclasses.replace(
        plain,
        candidates=_with_constants(plain.candidates, constants["candidates"], "candidates"),
        context=_with_constants(plain.context, constants["context"], "context"),
    )
    return scaled


def _read_scorer_settings(value: Any, where: str) -> NetworkSettings:
    """Return the settings of a candidate scorer; earlier versions wrote `heads` for all kinds."""
    attends = isinstance(value, dict) and value.get("kind") == "attention"
    if isinstance(value, dict) and not attends:
        value = {key: held for key, held in value.items() if key not in {"heads", "norm"}}
    kind = AttentionSettings if attends else NetworkSettings
    settings: NetworkSettings = read_settings(kind, value, where)
    return settings


def _sealed(description: dict[str, Any]) -> dict[str, Any]:
    """Return the description with its own digest as the last key, which shows later changes."""
    rest = {key: value for key, value in description.items() if key != "sealed"}
    return {**rest, "sealed": sha256_text(json.dumps(rest, separators=(",", ":")))}


def read_description(folder: Path) -> dict[str, Any]:
    """Return checkpoint.json; raise DatasetError for another format or version."""
    path = folder / DESCRIPTION
    if not path.exists() and not path.is_symlink():
        pickles = sorted(p.name for pattern in _PICKLES for p in folder.glob(pattern))
        hint = f"; {pickles[0]} may be a pickle, which is never loaded" if pickles else ""
        raise DatasetError(f"{folder}: not a checkpoint, {DESCRIPTION} is missing{hint}")
    try:
        description = read_json(path)
    except ValueError as error:  # a number with more digits than Python parses
        raise DatasetError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise DatasetError(f"{path}: not a checkpoint, expected format {FORMAT!r}")
    if description.get("version") != VERSION:
        raise DatasetError(
            f"{path}: version is {description.get('version')!r}, this code reads {VERSION}"
        )
    return description


def _read_features(value: Any) -> tuple[Feature, ...]:
    """Return features with name, unit and kind; acting needs no ranges or descriptions."""
    if not isinstance(value, list):
        raise TypeError(f"features are {type(value).__name__}, expected a list")
    if len(value) > _MOST_FEATURES:
        raise ValueError(f"{len(value)} features, expected at most {_MOST_FEATURES}")
    features = []
    for entry in value:
        name, unit = entry["name"], entry["unit"]
        heavy, identifier = entry["heavy_tailed"], entry["identifier"]
        if not (isinstance(name, str) and isinstance(unit, str)):
            raise TypeError(f"feature {name!r} with unit {unit!r}: expected two strings")
        if not (isinstance(heavy, bool) and isinstance(identifier, bool)):
            raise TypeError(f"feature {name!r}: heavy_tailed and identifier must be true or false")
        features.append(Feature(name, unit, -math.inf, math.inf, "", heavy, identifier))
    return tuple(features)


def _read_scorer(
    settings: NetworkSettings,
    context: tuple[Feature, ...],
    candidates: tuple[Feature, ...],
    acting: Any,
    scenario: Any,
) -> Network:
    """Return the unscaled scorer of a description; check sizes before allocating anything."""
    if not isinstance(scenario, str):
        raise TypeError(f"scenario is {type(scenario).__name__}, expected a name")
    if len(settings.hidden) > _DEEPEST or not all(1 <= h <= _WIDEST for h in settings.hidden):
        raise ValueError(
            f"network.hidden is {settings.hidden!r}, expected at most {_DEEPEST} widths of "
            f"1 to {_WIDEST}"
        )
    for name, width in (("image", settings.image), ("places", settings.places)):
        if width > _WIDEST:
            raise ValueError(f"network.{name} is {width}, expected at most {_WIDEST}")
    if not isinstance(acting, dict):
        raise TypeError(f"acting is {type(acting).__name__}, expected a table")
    pixels, threshold = acting.get("pixels", 0), acting.get("threshold", 0.0)
    if type(pixels) is not int or not 0 <= pixels <= _MOST_PIXELS:
        raise ValueError(f"acting.pixels is {pixels!r}, expected 0 to {_MOST_PIXELS}")
    if type(threshold) not in {int, float} or not 0.0 <= threshold <= 1.0:
        raise ValueError(f"acting.threshold is {threshold!r}, expected 0 to 1")
    if (pixels > 0) != (settings.image > 0):
        raise ValueError(f"acting.pixels is {pixels}, network.image {settings.image}")
    return dataclasses.replace(
        make_network(context, candidates, settings, pixels, scenario=scenario),
        threshold=float(threshold),
        outputs=2 if threshold > 0.0 else 1,
    )


def _with_constants(plain: FeatureMap, constants: Any, which: str) -> FeatureMap:
    mean = _numbers(constants["mean"], plain.size, f"{which}.mean")
    inverse = _numbers(constants["inverse"], plain.size, f"{which}.inverse")
    return plain._replace(mean=mean, inverse=inverse)


def _numbers(value: Any, length: int, which: str) -> NDArray[np.float64]:
    """Return constants (length,) of a normalisation; raise ValueError unless they are finite."""
    where = f"normalisation.{which}"
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"{where}: expected a list of {length} numbers, as many as its features")
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in value):
        raise ValueError(f"{where}: expected numbers")
    numbers = np.array([float(v) for v in value])
    if not np.isfinite(numbers).all():
        raise ValueError(f"{where}: a number is not finite")
    return numbers


def _read_weights(folder: Path, network: AnyNetwork, described: Any) -> Weights:
    """Return the weights; check their names, shapes, finiteness and digest."""
    path = folder / WEIGHTS
    expected = network.shapes
    if not path.exists() and not path.is_symlink():
        raise DatasetError(f"{path}: the file is missing; the checkpoint is not complete")
    most = _LONGEST_HEADER + 4 * sum(math.prod(shape) for shape in expected.values())
    size = require_file(path, most)
    if size != described["bytes"]:
        raise DatasetError(f"{path}: {size} bytes, {DESCRIPTION} says {described['bytes']!r}")
    if sha256_file(path) != described["sha256"]:
        raise DatasetError(f"{path}: the file has changed since it was written (sha256 differs)")
    try:
        with local_copy(path) as copy:
            weights = safetensors.numpy.load_file(copy)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{path}: not safetensors ({error}); pickles (.pt, .d3) are never loaded"
        ) from error
    if set(weights) != set(expected):
        odd = sorted(set(weights) ^ set(expected))
        raise DatasetError(f"{path}: weights do not fit the network, see {', '.join(odd[:5])}")
    for name, shape in expected.items():
        if weights[name].shape != shape or weights[name].dtype != np.float32:
            raise DatasetError(
                f"{path}: {name} is {weights[name].dtype} {weights[name].shape}, "
                f"expected float32 {shape}"
            )
        if not np.isfinite(weights[name]).all():
            raise DatasetError(f"{path}: {name} has values that are not finite")
    return weights
