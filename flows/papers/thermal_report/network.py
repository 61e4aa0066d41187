"""Q network of the 2018 data-centre report, and the policy that acts with it.

    server i     7 numbers: capacity, x, y, usage, energy, heat, feasible
    phi          one net for all servers, 7 - 10 - 2, leaky ReLU after both layers
    job          submit, deadline, process, resources, and the total heat
    Q            [phi(server 0) .. phi(server 5), job] - 20 - 10 - 6, leaky ReLU .2, the last linear

Unlike a candidate scorer, the network identifies servers by their numbers. Candidates are sorted by
their number, so their order in the observation does not matter, but there must be exactly as many
as in training. Source: L. Dong, "Solution on Data Center Job Scheduling Problem", 2018, section III
and Figure 6.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError, HindcastError
from hindcast.pipeline.settings.ranges import ranged
from hindcast.pipeline.simulation.policy import Reading
from hindcast.policies.networks import Architecture, Features
from hindcast.policies.networks.features import columns_of, fit_map
from hindcast.policies.networks.fixed import FixedNetwork, FixedSettings
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import dense

SERVER: Final = ("capacity", "x", "y", "usage", "energy", "heat")
JOB: Final = ("submit", "deadline", "process", "resources", "total_heat")
NUMBER: Final = "server"
LEAK: Final = 0.2
_MOST: Final = 1024
_PHI: Final = (10, 2)
_JOINT: Final = (20, 10)


@dataclass(frozen=True)
class ServersSettings(FixedSettings):
    """Architecture of the network. Raises DatasetError for a value that is out of range.

    Attributes:
        servers: Number of servers, 1 to 1024.
        kind: Name of the architecture.
    """

    servers: int = field(metadata=ranged("from 1 to 1,024"))
    kind: Literal["servers"] = "servers"

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= _MOST:
            raise DatasetError(f"network: servers is {self.servers}, expected 1 to {_MOST}")


@dataclass(frozen=True)
class ServersNetwork(FixedNetwork[ServersSettings]):
    """Network without its weights; implements hindcast.policies.networks.settings.Network."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        n = self.settings.servers
        widths = {
            "phi": (len(SERVER) + 1, *_PHI),
            "joint": (n * _PHI[-1] + len(JOB), *_JOINT, n),
        }
        shapes: dict[str, tuple[int, ...]] = {}
        for part, sizes in widths.items():
            for i, (before, after) in enumerate(pairwise(sizes)):
                shapes |= dense(f"{part}{i}", after, before)
        return shapes


def servers_network(
    settings: ServersSettings,
    context: Features,
    candidates: Features,
    rows: tuple[NDArray[np.floating], NDArray[np.floating]] | None = None,
) -> ServersNetwork:
    """Return the network over these features, standardised on `rows` if given.

    `rows` are contexts and candidates. Raises DatasetError if a feature is missing or heavy-tailed.
    """
    seen, moment = columns_of(candidates, (*SERVER, NUMBER))[:-1], columns_of(context, JOB)
    moments, servers = rows or (None, None)
    of_server = fit_map(candidates, seen, quadratic=False, rows=servers)
    of_job = fit_map(context, moment, quadratic=False, rows=moments)
    if (of_server.size, of_job.size) != (len(SERVER), len(JOB)):
        raise DatasetError("network: a feature of the servers or the job is heavy-tailed")
    return ServersNetwork(settings, of_server, of_job)


class ServersPolicy(LearnedPolicy):
    """BatchPolicy of the network with its weights; a decision takes a few microseconds."""

    network: ServersNetwork  # type: ignore[assignment]
    reads: tuple[Reading, ...] = ("feasible",)

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_] | None = None,
        image: NDArray[np.uint8] | None = None,  # noqa: ARG002 - the protocol's
    ) -> NDArray[np.float64]:
        """Return values (sum of N,) of B observations.

        Raises HindcastError if the shapes of the arrays do not match, or if an observation does not
        show exactly the servers of the network.
        """
        # Compiled code does no bounds checks.
        if (
            context.shape[1:] != (len(self.features_context),)
            or candidates.shape[1:] != (len(self.features_candidates),)
            or (feasible is not None and feasible.shape != (len(candidates),))
        ):
            raise HindcastError(
                f"{self.name}: context {context.shape} and candidates {candidates.shape} are not "
                f"observations of {len(self.features_context)} and "
                f"{len(self.features_candidates)} features with their feasible rows"
            )
        n, count = self.network.settings.servers, len(offsets) - 1
        if (np.diff(offsets) != n).any() or len(candidates) != n * count or len(context) != count:
            raise HindcastError(
                f"{self.name}: every observation must show all {n} servers of the network"
            )
        number = candidates[:, columns_of(self.features_candidates, (NUMBER,))[0]].reshape(count, n)
        order = number.argsort(axis=1, kind="stable") + offsets[:-1, None]
        rows = self.network.candidates.expand(candidates).reshape(count * n, -1)
        flags = np.ones(len(rows), np.float32) if feasible is None else feasible
        servers = np.concatenate([rows, flags.astype(np.float32)[:, None]], axis=1)[order]
        values = self._values(servers, self.network.context.expand(context))
        scores = np.empty(len(candidates))
        scores[order.ravel()] = values.ravel()
        return scores

    def _values(
        self, servers: NDArray[np.float32], job: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return Q (B, n) of servers (B, n, 7) and jobs (B, 5)."""
        seen = _leaky(self._linear(_leaky(self._linear(servers, "phi0")), "phi1"))
        joined = np.concatenate([seen.reshape(len(job), -1), job], axis=1)
        hidden = _leaky(self._linear(_leaky(self._linear(joined, "joint0")), "joint1"))
        return self._linear(hidden, "joint2")

    def _linear(self, x: NDArray[np.float32], layer: str) -> NDArray[np.float32]:
        """Return x W' + b, without BLAS, whose sums depend on the number of rows of a call."""
        y: NDArray[np.float32] = np.einsum(
            "...i,oi->...o", x, self.weights[f"{layer}.weight"], optimize=False
        )
        y += self.weights[f"{layer}.bias"]
        return y


def _leaky(x: NDArray[np.float32]) -> NDArray[np.float32]:
    activated: NDArray[np.float32] = np.maximum(x, np.float32(LEAK) * x)
    return activated


ARCHITECTURE: Final = Architecture(ServersPolicy, ServersSettings, servers_network)
