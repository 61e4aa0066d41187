"""The state of a training between two steps, in one file, from which a killed run resumes.

    <folder>/training.safetensors
        module/<name>/<key>                 parameters and buffers
        optimiser/<name>/<number>/<slot>    an optimiser's state of a parameter
        best/<name>                         weights of the best checkpoint so far
        metadata "state"                    JSON: key, step, generator, curves, best, and the rest
                                            of the optimisers' state

The file is written under a temporary name and renamed, so it is always complete. It is removed when
the checkpoint is written. `key` identifies the training (data, settings, seed, code); a state with
another key is ignored. Nothing is ever unpickled.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import write_bytes
from hindcast.policies.networks.checkpoint import Selected
from hindcast.policies.training.curves import Curves
from hindcast.policies.training.learner import Learner

NAME: Final = "training.safetensors"
INTERVAL_S: Final = 15.0  # between two states; shorter intervals cost more than they save
_DAMAGED: Final = (safetensors.SafetensorError, KeyError, ValueError, TypeError, RuntimeError)


class ResumeFile:
    """The file with the state of a run, written at most every `interval_s` seconds.

    The interval changes no result.
    """

    def __init__(
        self,
        folder: Path,
        key: str,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = folder / NAME
        self._key, self._interval_s, self._clock = key, interval_s, clock
        self._last = clock()

    def due(self) -> bool:
        """Return True if `interval_s` seconds have passed since the last state."""
        return self._clock() - self._last >= self._interval_s

    def write(self, step: int, learner: Learner, curves: Curves, best: Selected | None) -> None:
        """Replace the state with the one after `step`."""
        tensors, slots = _tensors(learner)
        described = {
            "key": self._key,
            "step": step,
            "generator": learner.rng.bit_generator.state,
            "curves": curves.state(),
            "slots": slots,
            "best": None if best is None else [best.step, best.metric, best.score],
        }
        if best is not None:
            tensors |= {f"best/{name}": np.array(value) for name, value in best.weights.items()}
        metadata = {"state": json.dumps(described)}
        # Not save_file, which writes its own temporary file; a kill would leave that behind.
        write_bytes(self.path, safetensors.numpy.save(tensors, metadata))
        self._last = self._clock()

    def restore(self, learner: Learner, curves: Curves) -> tuple[int, Selected | None]:
        """Restore the learner and the curves, and return their step and the best checkpoint so far.

        The step is 0 if there is no state of this training. Raises DatasetError if the file is
        damaged.
        """
        if not self.path.is_file():
            return 0, None
        try:
            content = self.path.read_bytes()
            described = _metadata(content)
            if described["key"] != self._key:
                return 0, None
            tensors = safetensors.numpy.load(content)
            best = None
            if described["best"] is not None:
                step, metric, score = described["best"]
                best = Selected(int(step), str(metric), float(score), _below(tensors, "best/"))
            _put_back(learner, tensors, described["slots"])
            curves.restore(described["curves"])
            learner.rng.bit_generator.state = described["generator"]
            return int(described["step"]), best
        except _DAMAGED as error:
            raise DatasetError(
                f"{self.path}: not the state of a training ({error}); delete it to start again"
            ) from error

    def waits(self) -> bool:
        """Return True if a state of this training exists."""
        try:
            return bool(_metadata(self.path.read_bytes())["key"] == self._key)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def remove(self) -> None:
        """Remove the state; the run is finished."""
        self.path.unlink(missing_ok=True)


def _tensors(learner: Learner) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return all tensors by name, and the optimisers' state that is no tensor."""
    found: dict[str, NDArray[Any]] = {}
    slots: dict[str, Any] = {}
    for name, module in learner.modules.items():
        for key, value in module.state_dict().items():
            found[f"module/{name}/{key}"] = _array(value)
    for name, optimiser in learner.optimisers.items():
        for number, remembered in optimiser.state_dict()["state"].items():
            for slot, value in remembered.items():
                at = f"optimiser/{name}/{number}/{slot}"
                if isinstance(value, torch.Tensor):
                    found[at] = _array(value)
                else:
                    slots[at] = value
    return found, slots


def _put_back(
    learner: Learner, tensors: Mapping[str, NDArray[Any]], slots: Mapping[str, Any]
) -> None:
    """Invert `_tensors`: restore the state of the modules and of the optimisers."""
    for name, module in learner.modules.items():
        own = _below(tensors, f"module/{name}/")
        module.load_state_dict({key: torch.from_numpy(value) for key, value in own.items()})
    for name, optimiser in learner.optimisers.items():
        prefix = f"optimiser/{name}/"
        values = {key: torch.from_numpy(v) for key, v in _below(tensors, prefix).items()}
        remembered: dict[int, dict[str, Any]] = {}
        for key, value in (values | _below(slots, prefix)).items():
            number, _, slot = key.partition("/")
            remembered.setdefault(int(number), {})[slot] = value
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": remembered, "param_groups": groups})


def _below(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def _array(value: torch.Tensor) -> NDArray[Any]:
    copied: NDArray[Any] = value.detach().cpu().numpy().copy()
    return copied


def _metadata(content: bytes) -> Any:
    """Return the JSON in the header of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["state"])
