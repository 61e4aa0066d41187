"""OSDEC networks in torch: normal distributions of job scores, and the value of a slot."""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, pad, softplus

from hindcast.flows.papers.osdec.network import BEYOND, NORM_EPSILON, SlotScoresNetwork
from hindcast.policies.networks.candidate_scorer import FILL, WeightedModule

LEAST_DEVIATION: Final = 1e-2  # added to the softplus: densities stay finite
_AUXILIARY: Final = ("past", "shared", "task", "prediction")


@dataclass(frozen=True)
class Seen:
    """Inputs of the network for B slots; features are expanded by policies.networks.features.

    Attributes:
        rows: Jobs (B, L, E): startable, then running, then future ones, then zeros; L is at most
            the number of rows that the network reads.
        moment: Features (B, M) of the moment.
        information: Outputs (B, I) of the auxiliary module.
        jobs: Number of jobs (B,) among the rows.
        startable: Number of startable jobs (B,).
    """

    rows: Tensor
    moment: Tensor
    information: Tensor
    jobs: Tensor
    startable: Tensor

    def __getitem__(self, which: Tensor) -> "Seen":
        jobs = self.jobs.index_select(0, which)
        longest = max(int(jobs.max()), 1)
        return Seen(
            self.rows[:, :longest].index_select(0, which),
            self.moment.index_select(0, which),
            self.information.index_select(0, which),
            jobs,
            self.startable.index_select(0, which),
        )


@dataclass(frozen=True)
class Scored:
    """Normal distributions of the scores of startable jobs, and values of the slots.

    Attributes:
        mean: Means (B, K).
        deviation: Standard deviations (B, K).
        present: Mask (B, K) of the jobs that exist and whose scores are drawn.
        value: Values (B,), in units of the learner.
    """

    mean: Tensor
    deviation: Tensor
    present: Tensor
    value: Tensor

    def log_probability(self, scores: Tensor) -> Tensor:
        """Return the log-density (B,) of scores (B, K) of the present jobs."""
        z = (scores - self.mean) / self.deviation
        each = -0.5 * (z * z + math.log(2.0 * math.pi)) - self.deviation.log()
        return torch.where(self.present, each, 0.0).sum(dim=1)


class SlotNetwork(WeightedModule):
    """Network with its heads; parameters are drawn from `rng`, uniform in +-1/sqrt(inputs)."""

    dot: ClassVar[str] = "__"

    def __init__(self, network: SlotScoresNetwork, rng: np.random.Generator) -> None:
        super().__init__()
        self.settings = network.settings
        for name, shape in network.shapes.items():
            own = network.shapes[name.replace("bias", "weight")]
            if len(own) == 1:  # of a normalisation
                start = np.full(shape, name.endswith("weight"), np.float32)
            else:
                bound = 1.0 / math.sqrt(own[1])
                start = rng.uniform(-bound, bound, shape).astype(np.float32)
            parameter = nn.Parameter(torch.from_numpy(start))
            self.register_parameter(name.replace(".", "__"), parameter)

    def mute_auxiliary(self) -> None:
        """Set the weights of the auxiliary module's outputs to 0 in the layer that reads them."""
        first = "layer0" if self.settings.encoder == "mlp" else "embed"
        weight = self._layer(first)[0]
        with torch.no_grad():
            weight[:, weight.shape[1] - self.settings.information :] = 0.0

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the parameters of the policy (with shared layers), value and auxiliary module."""
        found: dict[str, list[nn.Parameter]] = {"policy": [], "value": [], "auxiliary": []}
        for name, value in self.named_parameters():
            part = name.split("_")[0]
            group = "auxiliary" if part in _AUXILIARY else "value" if part == "worth" else "policy"
            found[group].append(value)
        return found

    def auxiliary(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs (B, I) for the rows, and predictions (B, TASKS), of B histories."""
        settings = self.settings
        if settings.auxiliary == "none":
            return history.new_zeros(len(history), 0), history.new_zeros(len(history), 0)
        low = self._linear(self._recurrent(history, "past")[:, -1], "shared").tanh()
        high = self._linear(low, "task").tanh()
        said = []
        if settings.auxiliary in {"low", "both"}:
            said.append(low * settings.low_coefficient)
        if settings.auxiliary in {"high", "both"}:
            said.append(high * settings.high_coefficient)
        return torch.cat(said, dim=1), self._linear(high, "prediction")

    def forward(self, seen: Seen) -> Scored:
        """Return the scores and values of B slots."""
        shown, read = int(seen.startable.max()), seen.rows.shape[1]
        more = torch.cat([seen.moment, seen.information], dim=1)
        if self.settings.encoder == "mlp":
            mean, deviation, value = self._fixed(seen.rows, more)
        else:
            mean, deviation, value = self._each(seen, more, min(shown, read))
        place = torch.arange(shown, device=mean.device)
        there = (place < seen.startable[:, None]) & (place < self.settings.rows)
        extra = (0, max(shown - mean.shape[1], 0))
        return Scored(
            pad(mean[:, :shown].tanh(), extra, value=BEYOND),
            pad(softplus(deviation[:, :shown]) + LEAST_DEVIATION, extra, value=1.0),
            there, value,
        )  # fmt: skip

    def _fixed(self, rows: Tensor, more: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the heads (B, rows) of the mlp before their activations, and values (B,)."""
        missing = self.settings.rows - rows.shape[1]
        hidden = torch.cat([pad(rows, (0, 0, 0, missing)).flatten(1), more], dim=1)
        for layer in ("layer0", "layer1"):
            hidden = self._linear(hidden, layer).relu()
        mean, deviation = self._linear(hidden, "mean"), self._linear(hidden, "deviation")
        return mean, deviation, self._linear(hidden, "worth").squeeze(1)

    def _each(self, seen: Seen, more: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the heads (B, most) of encoded jobs before activations, and values (B,)."""
        read = seen.rows.shape[1]
        live = torch.arange(read, device=more.device) < seen.jobs[:, None]
        # The moment's part of the first layer is computed once per slot.
        weight, bias = self._layer("embed")
        width = seen.rows.shape[2]
        x = linear(seen.rows, weight[:, :width], bias)
        x = x + linear(more, weight[:, width:]).unsqueeze(1)
        if self.settings.encoder == "pointer":
            x, for_mean = self._point(x, seen.jobs, most)
            for_deviation = for_mean
        else:
            for layer in range(self.settings.layers):
                x = self._attend(x, live, layer)
            for_mean = self._linear(x[:, :most], "mean_layer").relu()
            for_deviation = self._linear(x[:, :most], "deviation_layer").relu()
        each = self._linear(x, "worth").squeeze(2)
        value = torch.where(live, each, 0.0).sum(dim=1) / seen.jobs.clamp(min=1)
        mean, deviation = self._linear(for_mean, "mean"), self._linear(for_deviation, "deviation")
        return mean.squeeze(2), deviation.squeeze(2), value

    def _point(self, x: Tensor, jobs: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Return states (B, L, W) of all jobs, and pointing vectors (B, K, W) of startable ones."""
        longest = x.shape[1]
        turned = (jobs[:, None] - 1 - torch.arange(longest, device=x.device)).clamp(min=0)
        index = turned.unsqueeze(2).expand(-1, -1, x.shape[2])
        states = self._recurrent(x.gather(1, index), "jobs").gather(1, index)
        query = self._linear(states[:, 0], "pointer").unsqueeze(1)
        return states, (self._linear(states[:, :most], "reference") + query).tanh()

    def _attend(self, x: Tensor, live: Tensor, layer: int) -> Tensor:
        query, key, value = (self._linear(x, f"{p}{layer}") for p in ("query", "key", "value"))
        hidden = x.new_zeros(()).masked_fill(~live, FILL).unsqueeze(1)
        logits = torch.baddbmm(hidden, query, key.transpose(1, 2), alpha=1 / math.sqrt(x.shape[2]))
        found = logits.softmax(dim=2) @ value
        x = self._normed(x + self._linear(found, f"output{layer}"), f"seen{layer}")
        inner = self._linear(x, f"inner{layer}").relu()
        return self._normed(x + self._linear(inner, f"outer{layer}"), f"made{layer}")

    def _normed(self, x: Tensor, layer: str) -> Tensor:
        return layer_norm(x, x.shape[2:], *self._layer(layer), NORM_EPSILON)

    def _recurrent(self, x: Tensor, layer: str) -> Tensor:
        """Return the states (B, T, W) of a GRU that reads x (B, T, E), from state zero."""
        given, kept = self._layer(f"{layer}.input"), self._layer(f"{layer}.state")
        start = x.new_zeros(1, len(x), kept[0].shape[1])
        weights = [given[0], kept[0], given[1], kept[1]]
        states: Tensor = torch.gru(x, start, weights, True, 1, 0.0, self.training, False, True)[0]  # noqa: FBT003
        return states

    def _linear(self, x: Tensor, layer: str) -> Tensor:
        return linear(x, *self._layer(layer))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        name = name.replace(".", "__")
        return getattr(self, f"{name}__weight"), getattr(self, f"{name}__bias")
