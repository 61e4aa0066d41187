"""Episodes of `deferrable` played slot by slot, with one network call per slot for all episodes.

    slot 0       see -> network -> scores drawn -> prefix started, closed -> reward
    slot 1       see -> ...                        all episodes in lock step, to the horizon

Each episode draws its scores from a separate generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hindcast.flows.papers.osdec.network import TASKS, SlotScoresNetwork
from hindcast.flows.papers.osdec.slotwise import Begun, Slots
from hindcast.flows.papers.osdec.torch_network import Seen, SlotNetwork
from hindcast.pipeline.simulation.rollout import Episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.spec import Spec

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SlotTraces:
    """E episodes of T slots with the inputs and outputs of the network.

    Arrays of E * T slots hold one episode after the other.

    Attributes:
        episodes: The finished episodes.
        seen: Inputs of the network for E * T slots.
        scores: Scores (E * T, K) that were drawn.
        log_probability: Log-density (E * T,) of the scores of the startable jobs.
        history: Input (E * T, LAGS + 1, HISTORY) of the auxiliary module.
        targets: Targets (E * T, TASKS) of the auxiliary module; NaN in the last slot of an episode.
        value: Values (E, T), in units of the learner.
        reward: Rewards (E, T) of the slots.
        left: Slots left (E, T), the current one included.
    """

    episodes: list[Episode]
    seen: Seen
    scores: torch.Tensor
    log_probability: torch.Tensor
    history: torch.Tensor
    targets: torch.Tensor
    value: Floats
    reward: Floats
    left: Floats


def look(
    net: SlotNetwork, network: SlotScoresNetwork, slots: Slots | Begun, device: torch.device
) -> tuple[Seen, torch.Tensor]:
    """Return the network's inputs for slots at their beginning, and the slots' histories."""
    jobs = np.minimum(slots.counts.sum(axis=1), network.settings.rows)
    longest = max(int(jobs.max()), 1)
    shown = np.ascontiguousarray(slots.rows[:, :longest])
    rows = network.candidates.expand(shown.reshape(-1, shown.shape[2]))
    rows = rows.reshape(len(jobs), longest, -1)
    rows[np.arange(longest) >= jobs[:, None]] = 0.0
    history = torch.from_numpy(network.history(slots.history)).to(device)
    seen = Seen(
        torch.from_numpy(rows).to(device),
        torch.from_numpy(network.context.expand(slots.context)).to(device),
        net.auxiliary(history)[0],
        torch.from_numpy(jobs).to(device),
        torch.from_numpy(slots.counts[:, 0].copy()).to(device),
    )
    return seen, history


@torch.no_grad()
def play_greedily(
    net: SlotNetwork,
    network: SlotScoresNetwork,
    spec: Spec,
    instances: Sequence[Instance],
    device: torch.device,
) -> list[Episode]:
    """Return episodes played with the mean scores."""
    slots = Slots(spec, instances)
    for _ in range(slots.horizon):
        slots.see()
        seen, _history = look(net, network, slots, device)
        slots.play(net(seen).mean.cpu().numpy().astype(np.float64))
    return slots.episodes()


@torch.no_grad()
def play_slots(
    net: SlotNetwork,
    network: SlotScoresNetwork,
    spec: Spec,
    instances: Sequence[Instance],
    rngs: Sequence[np.random.Generator],
    device: torch.device,
) -> SlotTraces:
    """Return episodes whose scores are drawn, once per slot."""
    slots = Slots(spec, instances)
    shown, parts = [], []
    value, reward, told = [], [], []
    for _ in range(slots.horizon):
        slots.see()
        seen, history = look(net, network, slots, device)
        scored = net(seen)
        noise = np.zeros(scored.mean.shape, np.float32)
        for e, rng in enumerate(rngs):
            count = slots.counts[e, 0]
            noise[e, :count] = rng.standard_normal(count, np.float32)
        drawn = torch.from_numpy(noise).to(device) * scored.deviation + scored.mean
        scores = torch.where(scored.present, drawn, scored.mean)
        slots.play(scores.cpu().numpy().astype(np.float64))
        shown.append(tuple(vars(seen).values()))
        parts.append((scores, scored.log_probability(scores), history))
        value.append(scored.value.cpu().numpy().astype(np.float64))
        reward.append(slots.paid.copy())
        told.append(_auxiliary_targets(network, spec, slots))
    e, t = len(instances), slots.horizon
    scores, log_probability, history = map(_stacked, zip(*parts, strict=True))
    return SlotTraces(
        episodes=slots.episodes(),
        seen=Seen(*map(_stacked, zip(*shown, strict=True))),
        scores=scores,
        log_probability=log_probability,
        history=history,
        targets=torch.from_numpy(_following(told).reshape(e * t, TASKS)).to(device),
        value=np.stack(value, axis=1),
        reward=np.stack(reward, axis=1),
        left=np.broadcast_to(np.arange(t, 0, -1.0), (e, t)),
    )


def _auxiliary_targets(network: SlotScoresNetwork, spec: Spec, slots: Slots) -> Floats:
    """Return the quantities (E, TASKS) of a played slot that the auxiliary module predicts."""
    names = [f.name for f in spec.context]
    cores, duration = (names.index(f"startable_mean_{what}") for what in ("cores", "duration"))
    context, of_moment, of_job = slots.context, network.context, network.candidates
    return np.stack(
        [
            (context[:, 0] - of_moment.mean[0]) * of_moment.inverse[0],
            (context[:, cores] - of_job.mean[0]) * of_job.inverse[0],
            (context[:, duration] - of_job.mean[1]) * of_job.inverse[1],
            -slots.violation / max(float(of_moment.mean[0]), 1.0),
        ],
        axis=1,
    )


def _following(told: Sequence[Floats]) -> NDArray[np.float32]:
    """Return the quantities of the following slot, (E, T, TASKS); NaN after the last slot."""
    nothing = np.full_like(told[0], np.nan)
    return np.stack([*told[1:], nothing], axis=1).astype(np.float32)


def _stacked(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return T arrays of slots (E, ...) as one array (E * T, ...), episode after episode.

    The second dimension is padded with zeros to the longest.
    """
    if parts[0].dim() > 1:
        longest = max(p.shape[1] for p in parts)
        grown = parts[0].new_zeros(len(parts[0]), len(parts), longest, *parts[0].shape[2:])
        for t, part in enumerate(parts):
            grown[:, t, : part.shape[1]] = part
        return grown.flatten(0, 1)
    return torch.stack(list(parts), dim=1).flatten()
