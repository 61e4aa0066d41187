"""Draw one picture per scenario, from the small episodes: `python -m docs.pictures.scenarios`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from docs.pictures.small_episodes import EPISODES, Decision

OUT = Path(__file__).resolve().parent.parent / "_static" / "scenarios"
BLUE, ORANGE, GREY, INK = "#9ec5e8", "#f4b183", "#e3e3e3", "#222222"
WIDTH = 4.4  # inches: about 400 px, the width of a phone

mpl.rcParams.update(
    {
        "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "hindcast", "axes.titlesize": 9,
        "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
        "text.color": INK, "axes.labelcolor": INK,
    }
)  # fmt: skip


def panels(count: int, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """Return a figure with panels above each other."""
    figure = Figure(figsize=(WIDTH, height), facecolor="white", layout="constrained")
    return figure, list(figure.subplots(count, 1, squeeze=False, **options)[:, 0])


def box(
    axes: Any, left: float, bottom: float, width: float, height: float, text: str, colour: str
) -> None:
    """Draw a labelled box."""
    axes.add_patch(
        Rectangle((left, bottom), width, height, facecolor=colour, edgecolor=INK, lw=0.8)
    )
    axes.text(left + width / 2, bottom + height / 2, text, ha="center", va="center")


def save(figure: Figure, name: str) -> None:
    """Write a picture, the same bytes every time."""
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / f"{name}.svg", metadata={"Date": None})


def lanes_of(jobs: Sequence[tuple[float, float]]) -> list[int]:
    """Return for every (start, end) the first lane that is free at its start."""
    free: list[float] = []
    lanes = []
    for start, end in jobs:
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes


def binpack() -> None:
    """Draw instances on machines over time, by two rules."""
    figure, (top, bottom) = panels(2, 3.4, sharex=True)
    for axes, rule in ((top, "shortest_first"), (bottom, "longest_first")):
        decisions, outcomes = EPISODES["binpack"][rule]()
        for machine in (0, 1):
            placed = [d for d in decisions if d.row["machine"] == machine]
            spans = [(d.time_s, d.time_s + d.row["duration_s"]) for d in placed]
            for (start, end), lane in zip(spans, lanes_of(spans), strict=True):
                long = end - start == 10
                box(
                    axes,
                    start,
                    2.4 * machine + lane,
                    end - start,
                    0.92,
                    "A" if long else "B",
                    BLUE if long else ORANGE,
                )
        axes.set_title(f"{rule}: makespan {outcomes['makespan_s']:.0f} s")
        axes.set_yticks([1, 3.4], ["machine 0", "machine 1"])
        axes.set(xlim=(0, 14.3), ylim=(-0.2, 4.6), xticks=range(0, 15, 2))
    bottom.set_xlabel("seconds")
    save(figure, "binpack")


def slots() -> None:
    """Draw jobs in cpu slots over time, by a rule and by waiting."""
    figure, (top, bottom) = panels(2, 3.6, sharex=True)
    for axes, rule in ((top, "sjf_now"), (bottom, "wait one time step")):
        decisions, outcomes = EPISODES["slots"][rule]()
        for d in decisions:
            if not d.row["move_on"]:
                start = d.time_s + d.row["offset"]
                long = d.row["length"] == 6
                box(
                    axes,
                    start,
                    0,
                    d.row["length"],
                    d.row["cpu"],
                    "long" if long else "short",
                    BLUE if long else ORANGE,
                )
        axes.axvline(1, color=INK, lw=0.8, ls=":")
        axes.text(1.1, 11, "short job arrives", va="center", fontsize=8)
        axes.set_title(f"{rule}: mean slowdown {outcomes['mean_slowdown']:.2f}")
        axes.set(xlim=(0, 8.2), ylim=(0, 12), yticks=(0, 5, 10), ylabel="cpu slots")
    bottom.set_xlabel("time steps")
    save(figure, "slots")


def thermal() -> None:
    """Draw the positions of the servers and their heat."""
    figure = Figure(figsize=(WIDTH, 3.3), facecolor="white", layout="constrained")
    axes = figure.subplots()
    positions = [(0, 0), (1, 0), (-2, 0), (-2, 2), (3, 1), (3, 3)]
    for server, (x, y) in enumerate(positions):
        heat = 200 * np.exp(-np.hypot(x, y))
        colour = mpl.colormaps["YlOrRd"](min(0.12 + heat / 260, 0.85))
        axes.add_patch(Circle((x, y), 0.42, facecolor=colour, edgecolor=INK, lw=0.8))
        axes.text(x, y, str(server), ha="center", va="center")
        axes.text(x, y - 0.66, f"heat {heat:.1f}", ha="center", va="center", fontsize=8)
    axes.text(0.55, 3.35, "Heat of a fully used server per step,", ha="center", fontsize=8)
    axes.text(0.55, 2.95, "200 exp(-distance from server 0)", ha="center", fontsize=8)
    axes.set(xlim=(-2.9, 3.9), ylim=(-1, 3.8), aspect="equal")
    axes.axis("off")
    save(figure, "thermal")


def deferrable() -> None:
    """Draw jobs below the capacity, by two rules."""
    figure, axes_of = panels(3, 4.6, sharex=True)
    rules = ("fifo", "knapsack", "knapsack, capacity falls to 2")
    for axes, rule in zip(axes_of, rules, strict=True):
        decisions, outcomes = EPISODES["deferrable"][rule]()
        for d in decisions:
            if not d.row["closes"]:
                first = d.row["cores"] == 3
                box(
                    axes,
                    d.time_s / 3600,
                    0,
                    d.row["duration"],
                    d.row["cores"],
                    "A" if first else "B",
                    BLUE if first else ORANGE,
                )
        capacity = [4, 4, 4, 2 if "falls" in rule else 4]
        axes.stairs(capacity, np.arange(5), color=INK, lw=1.6, baseline=None)
        axes.set_title(f"{rule}: total reward {outcomes['total_reward']:.0f}")
        axes.set(xlim=(0, 4.2), ylim=(0, 5), yticks=(0, 2, 4), ylabel="cores", xticks=range(5))
    axes_of[-1].set_xlabel("slots of an hour; the thick line is the capacity")
    save(figure, "deferrable")


def multicluster() -> None:
    """Draw tasks on executors, by three plans."""
    figure, axes_of = panels(3, 5.2, sharex=True)
    for axes, rule in zip(axes_of, EPISODES["multicluster"], strict=True):
        decisions, outcomes = EPISODES["multicluster"][rule]()
        _clusters(axes, decisions)
        axes.set_title(
            f"{rule}: {outcomes['tmdl']:.0f} missed, delay {outcomes['ajdr_percent']:.0f} %"
        )
        axes.set_yticks([2, 7.5], ["cluster 0\n(4)", "cluster 1\n(6)"])
        axes.set(xlim=(0, 31), ylim=(0, 11))
        axes.axvline(11, color=INK, lw=0.8, ls=":")
    axes_of[-1].set_xlabel("time steps; dotted: deadline of the critical application")
    save(figure, "multicluster")


def _clusters(axes: Any, decisions: Sequence[Decision]) -> None:
    """Draw the tasks of applications: FIFO in a cluster, as many as there are executors."""
    sizes, bottoms = (4, 6), (0.0, 4.5)
    free = [[0.0] * size for size in sizes]
    for d in decisions:
        cluster, critical = int(d.row["cluster"]), bool(d.row["category"])
        for _task in range(round(d.row["tasks"] * 100)):
            executor = int(np.argmin(free[cluster]))
            start = max(free[cluster][executor], d.time_s)
            free[cluster][executor] = start + 10
            axes.add_patch(
                Rectangle(
                    (start, bottoms[cluster] + executor),
                    10,
                    0.92,
                    edgecolor=INK,
                    lw=0.8,
                    facecolor=ORANGE if critical else BLUE,
                )
            )
            if executor in {0, 4} or cluster == 0:
                axes.text(
                    start + 5,
                    bottoms[cluster] + executor + 0.44,
                    "critical" if critical else "regular",
                    ha="center",
                    va="center",
                    fontsize=7,
                )


if __name__ == "__main__":
    for draw in (binpack, slots, thermal, deferrable, multicluster):
        draw()
