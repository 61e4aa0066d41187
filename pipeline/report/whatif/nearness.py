"""Distance of the simulated machine from the machine of a log: four measurements and a grade.

    waited while fitting    share of the job-seconds of waiting, by the log, in which enough
                            processors were free for the job
    EASY to log             mean wait under order of arrival with EASY backfilling, simulated, over
                            the log's, in the run of the test part
    KS                      Kolmogorov-Smirnov distance of the two distributions of waits: 0 if
                            they are equal, 1 if they do not overlap
    over capacity           share of the time in which the jobs of the log hold more processors
                            than the machine has

The grade is the worst of the grades of the four measurements, each by the limits in `LIMITS`. A job
that waits although it fits is held for a reason that the log does not show, such as a limit or a
reservation, and no simulated scheduler has that reason.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.report.whatif.words import Nearness
from hindcast.pipeline.scenarios.queue.instances import Log
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled

# Largest values of the grades A, B and C; beyond them it is D.
LIMITS: Final[Mapping[str, tuple[float, float, float]]] = {
    "waited_while_fitting": (0.15, 0.30, 0.50),
    "easy_to_log": (1.15, 1.50, 2.00),  # times, in either direction
    "ks": (0.15, 0.35, 0.50),
    "over_capacity": (0.01, 0.03, 0.10),
}
_GRADES: Final = "ABCD"


@compiled(types.void(INTS, INTS, INTS, INTS, types.int64, FLOATS))
def _sweep(times, kinds, jobs, cpu, processors, sums):  # type: ignore[no-untyped-def]
    """Fill sums with job-seconds waited, those while fitting, seconds, and those over capacity.

    `times` are moments in order, at which `jobs` end (kind 0), are submitted (1) or start (2).
    """
    waiting = np.zeros(processors + 1, np.int64)  # waiting jobs by their processors
    number, fitting, free = 0, 0, processors
    for i in range(len(times)):
        if i > 0 and times[i] > times[i - 1]:
            seconds = times[i] - times[i - 1]
            fitting = 0
            for n in range(min(max(free, 0), processors) + 1):
                fitting += waiting[n]
            sums[0] += seconds * number
            sums[1] += seconds * fitting
            sums[2] += seconds
            if free < 0:
                sums[3] += seconds
        n = cpu[jobs[i]]
        if kinds[i] == 0:
            free += n
        elif kinds[i] == 1:
            waiting[n] += 1
            number += 1
        else:
            waiting[n] -= 1
            number -= 1
            free -= n


def waiting_of(log: Log) -> tuple[float, float]:
    """Return the share of the waiting in which the job fitted, and of the time over capacity."""
    size = np.arange(len(log.submit), dtype=np.int64)
    times = np.concatenate([log.start + log.run, log.submit, log.start])
    kinds = np.repeat(np.arange(3, dtype=np.int64), len(size))
    order = np.lexsort((kinds, times))
    sums = np.zeros(4)
    _sweep(times[order], kinds[order], np.tile(size, 3)[order], log.cpu, log.processors, sums)
    return sums[1] / max(sums[0], 1.0), sums[3] / max(sums[2], 1.0)


def distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    values = np.concatenate([first, second])
    shares = [
        np.searchsorted(np.sort(of), values, side="right") / len(of) for of in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


def nearness(log: Log, recorded: NDArray[np.float64], easy: NDArray[np.float64]) -> Nearness:
    """Return the grade of a log's simulated machine.

    Args:
        log: The log, with starts.
        recorded: Waits of the jobs of a run as recorded, (J,).
        easy: Waits of the same jobs under order of arrival with EASY backfilling, (J,).
    """
    fitting, over = waiting_of(log)
    ratio = float(easy.mean() / max(recorded.mean(), 1.0))
    numbers = {
        "waited_while_fitting": float(fitting),
        "easy_to_log": ratio,
        "ks": distance(recorded, easy),
        "over_capacity": float(over),
    }
    measured = {**numbers, "easy_to_log": max(ratio, 1.0 / max(ratio, 1e-9))}
    grades = {name: _grade(measured[name], LIMITS[name]) for name in LIMITS}
    side = "longer" if ratio > 1 else "shorter"
    texts = {
        "waited_while_fitting": (
            f"{100 * fitting:.0f} % of the recorded waiting passed while enough processors were "
            "free for the job: limits, reservations or holds that the log does not show."
        ),
        "easy_to_log": (
            f"Order of arrival with EASY backfilling waits {ratio:.2f} times as long as recorded: "
            f"the simulated machine has {side} queues."
        ),
        "ks": (
            f"Its waits are distributed otherwise than those of the replay (KS distance "
            f"{numbers['ks']:.2f})."
        ),
        "over_capacity": (
            f"The jobs of the log hold more processors than the machine has in {100 * over:.1f} % "
            "of the time."
        ),
    }
    order = sorted(texts, key=lambda name: grades[name], reverse=True)
    reasons = tuple(texts[name] for name in order if grades[name] > _GRADES[0])
    return Nearness(max(grades.values()), reasons, numbers, grades)


def _grade(value: float, limits: tuple[float, float, float]) -> str:
    return _GRADES[sum(value > limit for limit in limits)]
