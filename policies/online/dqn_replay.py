"""Ring buffer of played decisions, and minibatches of transitions drawn from it.

    row          ...  7    8    9   10  ...        decisions of an episode are in successive rows
    observation       o0   o1   o2   o3
    gain              r0+  r1+  r2+  r3            discounted sum of n rewards, here n = 2
    after             9    10   -    -             row of the decision n steps later

The successor is the row of a later decision, so every observation is stored once. A row is
overwritten before the rows after it, so `after` is valid as long as the row is. The ring consists
of buffers of a module: a resumed training continues from it, bit for bit.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.statistics.returns import discounted_sums
from hindcast.policies.networks.candidate_scorer import expand_moment
from hindcast.policies.networks.settings import Network
from hindcast.policies.rollouts.trajectories import NetworkInputs
from hindcast.policies.training.minibatches import Minibatch, Observations, Transitions

_MOST_BYTES = 4 << 30
_TERMINAL = -1
_UNKNOWN = -2


class Replay(nn.Module):
    """The last `size` decisions, of at most `k` feasible candidates each.

    The buffers are candidates (N, K, F), feasible ones first; count (N,), the number of feasible
    candidates; context (N, C); image (N, P) uint8; choice (N,) among the feasible candidates; gain,
    to_go and interval (N,); after (N,), the row of the successor, -1 at the end of an episode and
    -2 if the episode was truncated; filled () and head (). Raises RecipeError above 4 GB.
    """

    candidates: torch.Tensor
    count: torch.Tensor
    context: torch.Tensor
    image: torch.Tensor
    choice: torch.Tensor
    gain: torch.Tensor
    to_go: torch.Tensor
    interval: torch.Tensor
    after: torch.Tensor
    filled: torch.Tensor
    head: torch.Tensor

    def __init__(self, size: int, k: int, spec: Spec, network: Network) -> None:
        super().__init__()
        width = len(spec.candidates) + network.rules.width
        contexts = len(spec.context) if network.settings.context else 0
        need = size * (4 * (k * width + contexts) + network.pixels)
        if need > _MOST_BYTES:
            raise RecipeError(
                f"replay is {size} decisions of {k} candidates, which need {need / 2**30:.1f} GB; "
                f"at most {int(size * (_MOST_BYTES / need))} fit in {_MOST_BYTES >> 30} GB"
            )
        for name, shape, kind in (
            ("candidates", (size, k, width), torch.float32),
            ("count", (size,), torch.int64),
            ("context", (size, contexts), torch.float32),
            ("image", (size, network.pixels), torch.uint8),
            ("choice", (size,), torch.int64),
            ("gain", (size,), torch.float64),
            ("to_go", (size,), torch.float64),
            ("interval", (size,), torch.float64),
            ("after", (size,), torch.int64),
            ("filled", (), torch.int64),
            ("head", (), torch.int64),
        ):
            self.register_buffer(name, torch.zeros(shape, dtype=kind))

    def __len__(self) -> int:
        return int(self.filled)

    def add(
        self,
        parts: list[NetworkInputs],
        reward: NDArray[np.float64],
        passed: NDArray[np.float64],
        discount: float,
        steps: int,
        *,
        truncated: bool,
    ) -> None:
        """Add the decisions of one episode; only the last ones if it is longer than the ring.

        `parts` hold all T decisions in order; reward (T,), passed (T,), discount and steps are
        those of `n_step`.
        """
        total = len(reward)
        gain, to_go, interval = n_step(reward, passed, discount, steps)
        following = np.arange(total) + steps
        inside = following < total
        end = _UNKNOWN if truncated else _TERMINAL
        skipped = max(0, total - len(self.after))
        start, size = int(self.head) - skipped, len(self.after)
        rows = (start + np.arange(total)) % size
        after = np.where(inside, (start + following) % size, end)
        at = 0
        for part in parts:
            self._write(part, rows[at : at + len(part.chosen)], max(0, skipped - at))
            at += len(part.chosen)
        rows_kept = rows[skipped:]
        for name, values in (
            ("gain", gain), ("to_go", to_go), ("interval", interval), ("after", after),
        ):  # fmt: skip
            self._array(name)[rows_kept] = values[skipped:]
        self.head.fill_((start + total) % size)
        self.filled.fill_(min(size, len(self) + total))

    def _write(self, part: NetworkInputs, rows: NDArray[np.int64], skipped: int) -> None:
        """Write the observations and choices of one piece, except the first `skipped`."""
        count = np.diff(part.starts)
        decision = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(part.index)) - part.starts[decision]
        is_kept = decision >= skipped
        feasible = part.rows[part.index[is_kept]]
        self._array("candidates")[rows[decision[is_kept]], place[is_kept]] = feasible
        written = slice(skipped, None)
        self._array("count")[rows[written]] = count[written]
        self._array("context")[rows[written]] = part.context[written]
        self._array("image")[rows[written]] = part.image[written]
        self._array("choice")[rows[written]] = (part.chosen - part.starts[:-1])[written]

    def _array(self, name: str) -> NDArray[np.generic]:
        array: NDArray[np.generic] = getattr(self, name).numpy()
        return array

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw `size` rows with known successor uniformly, with replacement, if any."""
        with_successor = np.flatnonzero(self.after[: len(self)].numpy() != _UNKNOWN)
        if not len(with_successor):
            return np.empty(0, np.int64)
        return with_successor[rng.integers(0, len(with_successor), size)]

    def transitions(
        self, rows: NDArray[np.int64], network: Network, device: torch.device
    ) -> Transitions:
        """Return the transitions at `rows` (B,), ready for a scorer."""
        after = self.after.numpy()[rows]
        terminal = after == _TERMINAL
        now = self._seen(rows, np.ones(len(rows), np.bool_), network, device)
        successors = self._seen(np.maximum(after, 0), ~terminal, network, device)

        def column(name: str) -> torch.Tensor:
            values = getattr(self, name).numpy()[rows]
            return torch.from_numpy(values.astype(np.float32)).to(device)

        choice = torch.from_numpy(self.choice.numpy()[rows]).to(device)
        count = torch.from_numpy(self.count.numpy()[rows]).to(device)
        return Transitions(
            now=Minibatch(now.candidates, now.context, now.mask, choice, count),
            reward=column("gain"),
            elapsed_s=column("interval"),
            to_go=column("to_go"),
            terminal=torch.from_numpy(terminal.astype(np.float32)).to(device),
            after=successors,
        )

    def _seen(
        self,
        rows: NDArray[np.int64],
        exists: NDArray[np.bool_],
        network: Network,
        device: torch.device,
    ) -> Observations:
        count = np.where(exists, self.count.numpy()[rows], 0)
        mask = np.arange(self.candidates.shape[1]) < count[:, None]
        candidates = network.candidates.expand(self.candidates.numpy()[rows][mask])
        images = self.image.numpy()[rows] if network.pixels else None
        moment = expand_moment(network, self.context.numpy()[rows], images)
        arrays = (candidates, moment, mask)
        return Observations(*(torch.from_numpy(array).to(device) for array in arrays))


def n_step(
    reward: NDArray[np.float64], passed: NDArray[np.float64], discount: float, steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return gains of `steps` rewards, returns-to-go and the time in these steps, (T,) each.

        gain_t = r_t + d_t r_t+1 + d_t d_t+1 r_t+2 + ...        `steps` terms, or up to the end

    d_t is discount ** passed_t; passed (T,) is 1 or the seconds of each step.
    """
    total = len(reward)
    share = np.float64(discount) ** passed
    gain, discount_so_far, interval = np.zeros(total), np.ones(total), np.zeros(total)
    for k in range(min(steps, total)):
        inside = slice(0, total - k)
        gain[inside] += discount_so_far[inside] * reward[k:]
        discount_so_far[inside] *= share[k:]
        interval[inside] += passed[k:]
    return gain, discounted_sums(np.zeros(total, np.int64), reward, share), interval
