"""Made logs for tests of forecasts."""

from dataclasses import replace

import numpy as np

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.run import run_of


def made_record(jobs: int, seed: int = 0, *, processors: int = 16, gap_s: float = 900.0) -> Record:
    """Return a log in which every user asks for one of three limits and uses a share of them.

    The share of a run is uniform in an interval of the user's own: that is the law of run times.
    """
    rng = np.random.default_rng(seed)
    arrive = np.cumsum(rng.exponential(gap_s, jobs)).astype(np.int64)
    user, cpu = rng.integers(0, 5, jobs), 2 ** rng.integers(0, 4, jobs)
    requested = np.array([1800, 7200, 14400])[rng.integers(0, 3, jobs)]
    share = 0.15 * user + rng.uniform(0.05, 0.3, jobs)
    unknown = np.full(jobs, -1)
    key = np.unique(np.stack([user, cpu, requested]), axis=1, return_inverse=True)[1].reshape(-1)
    return Record(
        processors=processors, row=np.arange(jobs), submit=arrive, arrive=arrive, cpu=cpu,
        run=np.maximum((share * requested).astype(np.int64), 1), requested=requested, user=user,
        key=key, queue=unknown, partition=unknown, qos=unknown, account=unknown, nodes=unknown,
        start=np.full(jobs, NEVER),
    )  # fmt: skip


def scheduled(record: Record, rule: str) -> Record:
    """Return the log with the starts of a rule."""
    return replace(record, start=play(run_of(record, 0, warm=False), *policy_of(rule)))
