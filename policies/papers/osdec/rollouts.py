"""Episodes of `deferrable` slot by slot: one call of the network per slot for all of them.

    slot 0       see -> network -> scores drawn -> prefix started, closed -> reward
    slot 1       see -> ...                        all episodes in lock step, to the horizon

Every episode draws its scores from its own generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.scenarios.deferrable.slotwise import Begun, Slots
from pipeline.simulation.rollout import Episode
from pipeline.simulation.scenario import Instance
from pipeline.simulation.spec import Spec
from policies.papers.osdec.network import TASKS, SlotScoresNetwork
from policies.papers.osdec.torch_network import Seen, SlotNetwork

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SlotTraces:
    """E episodes of T slots; what they came to, and what the network was shown and said.

    seen             E * T slots, an episode's one after the other
    scores           (E * T, K) as they were drawn
    log_probability  (E * T,) of them, of the jobs that could start
    history          (E * T, LAGS + 1, HISTORY) that the auxiliary module read
    targets          (E * T, TASKS) that it had to predict; NaN in the last slot of an episode
    value            (E, T) in units of the learner
    reward, left     (E, T); slots that are left, this one included
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
    """What a network is shown of slots as they begin, and their histories."""
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
    """Episodes that are played with the mean scores."""
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
    """Episodes whose scores are drawn, once a slot."""
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
        told.append(_told(network, spec, slots))
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


def _told(network: SlotScoresNetwork, spec: Spec, slots: Slots) -> Floats:
    """What the auxiliary module could have predicted of a slot that was played, (E, TASKS)."""
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
    """What was told one slot later, (E, T, TASKS)."""
    nothing = np.full_like(told[0], np.nan)
    return np.stack([*told[1:], nothing], axis=1).astype(np.float32)


def _stacked(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Slots (E, ...) of T moments -> (E * T, ...), an episode's one after the other.

    Their second dimension is padded with zeros to the longest.
    """
    if parts[0].dim() > 1:
        longest = max(p.shape[1] for p in parts)
        grown = parts[0].new_zeros(len(parts[0]), len(parts), longest, *parts[0].shape[2:])
        for t, part in enumerate(parts):
            grown[:, t, : part.shape[1]] = part
        return grown.flatten(0, 1)
    return torch.stack(list(parts), dim=1).flatten()
