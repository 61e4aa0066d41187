"""Numbers of the RLScheduler paper's Tables V and VI, as its repository prints them.

Source: README.md of github.com/DIR-LAB/deep-batch-scheduler, which names them so; means of ten
sequences of 1,024 jobs, columns FCFS, WFP3, UNI, SJF, F1 and RL. The rows of its columns WFP3 and
UNI belong to the rules `wfp` and `uni` here, whose signs are turned.
"""

from collections.abc import Mapping
from typing import Final

POLICIES: Final = ("fcfs", "wfp", "uni", "sjf", "f1", "paper_agent")
TRACES: Final[Mapping[str, str]] = {  # names in the tables
    "lublin_256": "Lublin-1",
    "SDSC-SP2": "SDSC-SP2",
    "HPC2N": "HPC2N",
    "lublin_256_new2": "Lublin-2",
}

# (trace, backfilling) -> numbers in the order of POLICIES
BOUNDED_SLOWDOWN: Final[Mapping[tuple[str, bool], tuple[float, ...]]] = {
    ("lublin_256", False): (7273.77, 19753.53, 22274.74, 277.35, 258.37, 254.67),
    ("SDSC-SP2", False): (1727.54, 3000.88, 1848.45, 2680.55, 1232.06, 466.44),
    ("HPC2N", False): (297.18, 426.99, 609.77, 157.71, 118.01, 117.01),
    ("lublin_256_new2", False): (7842.47, 9523.18, 11265.31, 787.89, 698.34, 724.51),
    ("lublin_256", True): (235.82, 133.87, 307.23, 73.31, 75.07, 58.64),
    ("SDSC-SP2", True): (1595.12, 1083.12, 548.01, 2167.84, 1098.22, 397.82),
    ("HPC2N", True): (127.38, 97.39, 175.12, 122.04, 71.95, 86.14),
    ("lublin_256_new2", True): (247.61, 318.35, 379.59, 91.99, 148.25, 118.79),
}
UTILISATION: Final[Mapping[tuple[str, bool], tuple[float, ...]]] = {
    ("lublin_256", False): (0.657, 0.747, 0.691, 0.762, 0.816, 0.714),
    ("SDSC-SP2", False): (0.670, 0.658, 0.688, 0.645, 0.674, 0.671),
    ("HPC2N", False): (0.638, 0.636, 0.636, 0.640, 0.637, 0.640),
    ("lublin_256_new2", False): (0.404, 0.543, 0.510, 0.562, 0.478, 0.562),
    ("lublin_256", True): (0.868, 0.864, 0.883, 0.778, 0.840, 0.850),
    ("SDSC-SP2", True): (0.682, 0.681, 0.706, 0.661, 0.677, 0.707),
    ("HPC2N", True): (0.639, 0.637, 0.638, 0.641, 0.638, 0.642),
    ("lublin_256_new2", True): (0.587, 0.583, 0.587, 0.593, 0.552, 0.593),
}
