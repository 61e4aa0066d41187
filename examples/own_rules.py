"""Rules of your own as functions, for `--policy`, recipes and datasets.

    hindcast evaluate RECIPE --policy tetris examples/own_rules.py:narrow_first --out OUT

A function gives every candidate a score, and the feasible candidate with the highest score is
chosen. The three functions are the same rule: in Python, in Python for many episodes at once, and
compiled.
"""

import numpy as np

import hindcast

CORES, SECONDS = 2, 4  # compiled code needs numbers: positions of columns of binpack


def narrow_first(context, candidates, feasible, spec):
    """Choose the task with the fewest cores per second."""
    cores, seconds = spec.column("cores"), spec.column("duration_s")
    return -candidates[:, cores] / np.maximum(candidates[:, seconds], 1.0)


def narrow_first_batched(context, candidates, feasible, spec):
    """Choose the task with the fewest cores per second, in B episodes at once."""
    cores, seconds = spec.column("cores"), spec.column("duration_s")
    return -candidates[:, :, cores] / np.maximum(candidates[:, :, seconds], 1.0)


narrow_first_batched.batched = True  # type: ignore[attr-defined]


@hindcast.kernel.compiled(hindcast.kernel.SCORE)
def narrow_first_compiled(context, candidates, feasible, parameters, scores):
    """Choose the task with the fewest cores per second, in compiled code."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, CORES] / max(candidates[i, SECONDS], 1.0)
