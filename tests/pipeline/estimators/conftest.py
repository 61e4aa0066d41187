"""A small decision process in which every trajectory and its probability are enumerated."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from hindcast.pipeline.estimators import LoggedEpisodes

STATES, CHOICES, HORIZON = 2, 2, 3


@dataclass
class Process:
    """Decision process with states 0 and 1, two choices, and at most three decisions.

    Choice 1 in state 1 ends an episode.

    All probabilities of the log are multiples of a quarter, so that every trajectory can be
    repeated in proportion to its probability. Sample means are then expectations.
    """

    deterministic: bool = False
    discount: float = 1.0
    behaviour: np.ndarray = field(default_factory=lambda: np.array([[0.25, 0.75], [0.5, 0.5]]))
    evaluation: np.ndarray = field(default_factory=lambda: np.array([[0.7, 0.3], [0.1, 0.9]]))
    reward: np.ndarray = field(default_factory=lambda: np.array([[1.0, -2.0], [0.5, 3.0]]))

    def next_states(self, state, choice):
        """Return [(state or None, probability)] after a choice."""
        if state == 1 and choice == 1:
            return [(None, 1.0)]
        if self.deterministic:
            return [((state + choice) % STATES, 1.0)]
        return [(0, 0.25), (1, 0.75)] if choice == 0 else [(0, 0.5), (1, 0.5)]

    def starts(self):
        return [(0, 0.5), (1, 0.5)]

    def trajectories(self):
        """Return all trajectories: [(probability under the behaviour, [(t, state, choice)])]."""
        found = []

        def grow(state, path, probability):
            for choice in range(CHOICES):
                p = probability * self.behaviour[state, choice]
                longer = [*path, (len(path), state, choice)]
                for after, q in self.next_states(state, choice):
                    if after is None or len(longer) == HORIZON:
                        found.append((p * q, longer))
                    else:
                        grow(after, longer, p * q)

        for state, p in self.starts():
            grow(state, [], p)
        return found

    def values(self):
        """Return the evaluated policy's true q (HORIZON + 1, S, A) and v (HORIZON + 1, S)."""
        q = np.zeros((HORIZON + 1, STATES, CHOICES))
        v = np.zeros((HORIZON + 1, STATES))
        for t in reversed(range(HORIZON)):
            for s in range(STATES):
                for a in range(CHOICES):
                    following = [n for n in self.next_states(s, a) if n[0] is not None]
                    later = sum(p * v[t + 1, after] for after, p in following)
                    q[t, s, a] = self.reward[s, a] + self.discount * later
                v[t, s] = self.evaluation[s] @ q[t, s]
        return q, v

    @property
    def value(self):
        _q, v = self.values()
        return sum(p * v[0, s] for s, p in self.starts())

    def log(self, paths, q=None, group=None, tabular=False):
        """Return LoggedEpisodes of these paths; `q` (HORIZON + 1, S, A) gives q and v."""
        lengths = [len(path) for path in paths]
        rows = np.array([row for path in paths for row in path])
        t, s, a = rows.T
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        more = {}
        if q is not None:
            v = (q * self.evaluation[None]).sum(axis=2)
            more = {"q": q[t, s, a], "v": v[t, s]}
        if tabular:
            more |= self._tabular(paths)
        return LoggedEpisodes(
            offsets=offsets, behaviour=self.behaviour[s, a], evaluation=self.evaluation[s, a],
            reward=self.reward[s, a], discount=self.discount, group=group, **more,
        )  # fmt: skip

    def _tabular(self, paths):
        """Return one indicator per (t, state, choice), and its expectation under the policy."""

        def expected(t, s):
            row = np.zeros((HORIZON, STATES, CHOICES))
            row[t, s] = self.evaluation[s]
            return row.ravel()

        features, following, initial = [], [], []
        for path in paths:
            initial.append(expected(*path[0][:2]))
            for row, after in pairwise([*path, None]):
                one = np.zeros((HORIZON, STATES, CHOICES))
                one[row] = 1.0
                features.append(one.ravel())
                following.append(np.zeros(one.size) if after is None else expected(*after[:2]))
        return {
            "features": np.array(features),
            "next_features": np.array(following),
            "initial_features": np.array(initial),
        }

    def repeated(self):
        """Return each trajectory in proportion to its probability, as in an infinite log."""
        found = self.trajectories()
        least = min(p for p, _path in found)
        return [path for p, path in found for _ in range(round(p / least))]


@pytest.fixture(params=[1.0, 0.9], ids=["undiscounted", "discounted"])
def process(request):
    return Process(discount=request.param)


@pytest.fixture
def deterministic_process():
    return Process(deterministic=True)


@pytest.fixture
def five():
    """Return five ragged episodes written by hand, one impossible for the evaluated policy."""
    return {
        "lengths": [2, 1, 3, 2, 4],
        "behaviour": [0.5, 0.25, 0.8, 0.5, 0.4, 0.1, 0.9, 0.3, 0.5, 0.5, 0.5, 0.2],
        "evaluation": [0.4, 0.5, 0.6, 1.0, 0.2, 0.3, 0.9, 0.0, 0.7, 0.1, 0.6, 0.4],
        "reward": [1.0, -2.0, 3.0, 0.0, 4.0, -1.0, 2.0, 5.0, 1.0, 1.0, -3.0, 2.0],
        "q": [0.3, -1.0, 2.0, 1.0, 2.0, -0.5, 1.5, 4.0, 0.2, 0.1, -1.0, 1.0],
        "v": [0.5, -0.5, 1.5, 1.2, 1.0, 0.0, 2.0, 1.0, 0.4, 0.3, -0.2, 0.6],
        "discount": 0.9,
    }
