"""The numbers that GAIA's notebook prints for its Figures 8 to 12."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.flows.papers.gaia.simulator import TICK_S, Jobs, Policy, Run, play

FIRST_HOUR: Final = 7000  # of 2022 (UTC)
HOURS: Final = 720
ZONE: Final = "AU-SA"
COLUMNS: Final = (
    "figure", "policy", "scheduling_policy", "carbon_policy", "waits", "reserved", "metric",
    "printed",
)  # fmt: skip
NOW: Final = Policy("carbon", "oracle", "0x0")
CARBON_TIME: Final = Policy("carbon", "cst_average")
WAIT_AWHILE: Final = Policy("suspend-resume", "oracle", start_without_arrival=True)
_FIGURE_8: Final[Mapping[str, Policy]] = {
    "NoWait": NOW,
    "Lowest-Slot": Policy("carbon", "lowest"),
    "Lowest-Window": Policy("carbon", "waiting"),
    "Carbon-Time": CARBON_TIME,
    "Ecovisor": Policy("suspend-resume-threshold", "oracle"),
    "Wait AWhile": WAIT_AWHILE,
}
_FIGURE_10: Final[Mapping[str, Policy]] = {
    "NoWait": Policy("carbon", "oracle", "0x0", 9),
    "AllWait-Threshold": Policy("cost", "oracle", reserved=9),
    "Wait AWhile": Policy("suspend-resume", "oracle", reserved=9, start_without_arrival=True),
    "Ecovisor": Policy("suspend-resume-threshold", "oracle", reserved=9),
    "Carbon-Time": Policy("carbon", "cst_average", reserved=9),
    "RES-First-Carbon-Time": Policy("carbon-cost", "cst_average", reserved=9),
}
_FIGURE_12: Final[Mapping[str, Policy]] = {
    "Carbon-Time": CARBON_TIME,
    "Spot-First-Carbon-Time": Policy("carbon-spot", "cst_average"),
    "Spot-First-Ecovisor": Policy("suspend-resume-spot-threshold", "oracle"),
    "SPOT-RES-Carbon-Time": Policy("carbon-cost-spot", "cst_average", reserved=9),
    "SPOT-RES-Carbon-Time-6": Policy("carbon-cost-spot", "cst_average", reserved=6),
}
_RESERVED: Final = (0, 3, 6, 9, 12, 15, 18, 21, 24)  # of Figure 11
_ENDS: Final = 5  # rows that a printed table shows at its beginning and at its end


def cells(jobs: Jobs, intensity: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the printed numbers as texts. `intensity` are the hours of carbon, (T,) in g/kWh."""

    @cache
    def run(policy: Policy) -> Run:
        return play(jobs, intensity, policy)

    now = run(NOW)
    found: list[dict[str, Any]] = []

    def add(figure: int, name: str, policy: Policy, metrics: Mapping[str, str]) -> None:
        given = (policy.scheduling, policy.carbon, policy.waits, policy.reserved)
        found.extend(
            dict(zip(COLUMNS, (figure, name, *given, metric, text), strict=True))
            for metric, text in metrics.items()
        )

    for figure, policies in ((8, _FIGURE_8), (10, _FIGURE_10), (12, _FIGURE_12)):
        runs = {name: run(policy) for name, policy in policies.items()}
        carbon = now.carbon.sum() if figure < 12 else max(r.carbon.sum() for r in runs.values())
        waits, bills = (max(getattr(r, a) for r in runs.values()) for a in ("wait_h", "bill"))
        for name, of in runs.items():
            metrics = {"Carbon Emissions": of.carbon.sum() / carbon}
            metrics |= {"Cost": of.bill / bills} if figure > 8 else {}
            metrics |= {"Waiting Time": of.wait_h / waits}
            add(figure, name.removesuffix("-6"), policies[name], _texts(metrics))
    for reserved in _RESERVED:
        policy, name = CARBON_TIME, "Carbon-Time"
        if reserved:
            name = f"RES-First-{name}"
            policy = Policy("carbon-cost", "cst_average", reserved=reserved)
        add(11, name, policy, _texts(_totals(jobs, run(policy), now)))
    for minutes, metrics in _by_length(run(CARBON_TIME), now):
        texts = {f"{name} at {minutes} min": text for name, text in _texts(metrics).items()}
        # A column of zeros is printed with one place.
        texts |= {name: "0.0" for name in texts if name.startswith(("saved_cost", "cost_percent"))}
        add(9, "Carbon-Time", CARBON_TIME, texts)
    return found


def _texts(metrics: Mapping[str, float | int]) -> dict[str, str]:
    return {n: str(v) if isinstance(v, int) else f"{v:.6f}" for n, v in metrics.items()}


def _totals(jobs: Jobs, of: Run, now: Run) -> dict[str, float | int]:
    """Return the row of a run in Figure 11. The line of the reserved cores has the number -1."""
    carbon, base = float(of.carbon.sum()), float(now.carbon.sum())
    return {
        "ID": int(of.job.sum()) - 1,
        "arrival_time": int(jobs.arrival[of.job].sum()),
        "length": int(of.length.sum()),
        "cpus": int(jobs.cores[of.job].sum()),
        "carbon_cost": carbon,
        "dollar_cost": of.bill,
        "start_time": int(of.start.sum()),
        "waiting_time": of.wait_h,
        "saved_carbon": base - carbon,
        "saved_cost": now.bill - of.bill,
        "carbon_percent": (base - carbon) / base * 100,
        "cost_percent": (now.bill - of.bill) / now.bill * 100,
        "normalized_carbon": carbon / base,
        "normalized_cost": of.bill / now.bill,
    }


def _by_length(of: Run, now: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the sums over jobs of a length in minutes, for the shortest and the longest five.

    As published, a job is compared with the one that was started at its number's place without
    waiting, which for tied arrivals is another job.
    """
    agnostic = now.carbon[of.job]
    length = of.length * TICK_S // 60
    saved = agnostic - of.carbon
    lengths, group = np.unique(length, return_inverse=True)
    columns = {
        "carbon_cost_agnostic": agnostic, "carbon_cost": of.carbon, "saved_carbon": saved,
        "saved_cost": np.zeros(len(saved)), "carbon_percent": saved / agnostic * 100,
        "cost_percent": np.zeros(len(saved)), "normalized_carbon": of.carbon / agnostic,
    }  # fmt: skip
    sums = {name: np.bincount(group, values) for name, values in columns.items()}
    sums["carbon_cum"] = np.cumsum(sums["saved_carbon"]) / saved.sum()
    for place in (*range(_ENDS), *range(len(lengths) - _ENDS, len(lengths))):
        yield int(lengths[place]), {name: float(of[place]) for name, of in sums.items()}
