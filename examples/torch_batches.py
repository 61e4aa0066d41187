"""A training loop of your own in PyTorch, on minibatches of a dataset.

    python examples/torch_batches.py [OUT [SECTION.KEY=VALUE ...]]

A small network scores every candidate, and is trained to give the logged choice the highest score
(behaviour cloning). `dataset.batches` reads shuffled minibatches from Parquet, so the dataset may
be larger than memory. The network then acts: it is an object with `name` and `scores`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hindcast

RECIPE = "binpack-synthetic-v1"
EXPERT = 'behaviours=[{policy="longest_spread", epsilon=0.1, episodes=4}]'  # who is imitated


class Cloned:
    """A scorer of candidates: raw features -> log(1 + x) -> two layers -> one score each."""

    name = "cloned"

    def __init__(self, spec: hindcast.Spec) -> None:
        kept = [i for i, feature in enumerate(spec.candidates) if not feature.identifier]
        self._columns = torch.tensor(kept)
        self.net = nn.Sequential(nn.Linear(len(kept), 32), nn.ReLU(), nn.Linear(32, 1))

    def of(self, candidates: Tensor) -> Tensor:
        """Return scores (...) of candidates (..., F)."""
        known = candidates[..., self._columns]
        scores: Tensor = self.net(known.sign() * known.abs().log1p())[..., 0]
        return scores

    @torch.no_grad()
    def scores(self, observation: Any) -> NDArray[np.float64]:
        """Return one score per candidate, shape (N,)."""
        rows = torch.from_numpy(observation.candidates.astype(np.float32))
        return self.of(rows).double().numpy()


def main(out: Path, overrides: Sequence[str] = (), passes: int = 1) -> Mapping[str, float]:
    """Return the mean makespan of every policy, in seconds."""
    recipe = hindcast.load_recipe(RECIPE, (EXPERT, 'split.train="0..9"', *overrides))
    dataset = hindcast.build(recipe, out / "dataset", workers=2)
    torch.set_num_threads(1)  # faster for a network this small
    torch.manual_seed(0)
    rng, policy = np.random.default_rng(0), Cloned(dataset.spec)
    optimiser = torch.optim.Adam(policy.net.parameters(), lr=3e-3)
    for _ in range(passes):
        for number, batch in enumerate(dataset.batches(256, rng, k=32, transitions=False)):
            scores = policy.of(torch.from_numpy(batch.candidates))
            scores = scores.masked_fill(~torch.from_numpy(batch.mask), -torch.inf)
            loss = nn.functional.cross_entropy(scores, torch.from_numpy(batch.choice))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if number % 50 == 0:
                agree = np.mean(scores.argmax(dim=1).numpy() == batch.choice)
                print(f"minibatch {number:4}: loss {loss.item():.3f}, agreement {agree:.1%}")

    means = hindcast.evaluate(
        recipe, ["random", "longest_spread", policy], out=out / "scores"
    ).means
    for name, seconds in means.items():
        print(f"{name:<16}{seconds:10.2f} s")
    return means


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/torch_batches"), sys.argv[2:])
