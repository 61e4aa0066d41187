"""Pictures and text of an observation, for `render`.

A picture has two panels. The left one shows the cluster as the scenario draws it, or the features
of the moment. The right one shows the candidates as rows: a column per feature, each scaled by its
largest value, and a first column that is dark for a feasible candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.plugins import Registry
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.spec import Spec

_ROWS: Final = 40  # candidates in a picture
_LINES: Final = 20  # candidates in a text


@dataclass(frozen=True)
class View:
    """Observation to render, with the names of its features and a title."""

    spec: Spec
    observation: Observation
    title: str

    def moment(self, prefix: str = "") -> dict[str, float]:
        """Return the features of the moment whose names begin with `prefix`."""
        values = zip(self.spec.context, self.observation.context, strict=True)
        return {f.name: float(v) for f, v in values if f.name.startswith(prefix)}

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a feature of all candidates, (N,)."""
        names = [feature.name for feature in self.spec.candidates]
        return self.observation.candidates[:, names.index(name)]


def frame(view: View, mode: str) -> Any:
    """Return a picture (H, W, 3) uint8 for the mode "rgb_array", text for "ansi"."""
    return picture(view) if mode == "rgb_array" else text(view)


def text(view: View) -> str:
    """Return the features of the moment, and a table of the candidates."""
    observation = view.observation
    lines = [f"{view.title}, {observation.time_s:,.6g} s", ""]
    lines += [f"  {name:<28}{value:>12.6g}" for name, value in list(view.moment().items())[:_LINES]]
    if len(observation.context) > _LINES:
        lines.append(f"  ... {len(observation.context) - _LINES} more")
    names = [feature.name for feature in view.spec.candidates]
    widths = [max(len(name), 9) for name in names]
    lines += ["", "   row  " + "  ".join(f"{n:>{w}}" for n, w in zip(names, widths, strict=True))]
    for i, row in enumerate(observation.candidates[:_LINES]):
        mark = "*" if observation.feasible[i] else " "
        cells = "  ".join(f"{v:>{w}.6g}" for v, w in zip(row, widths, strict=True))
        lines.append(f"{mark} {i:>4}  {cells}")
    if len(observation.candidates) > _LINES:
        lines.append(f"  ... {len(observation.candidates) - _LINES} more")
    return "\n".join([*lines, "* feasible", ""])


def picture(view: View) -> NDArray[np.uint8]:
    """Return a picture of the cluster and of the candidates, (480, 1120, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.2, 4.8), dpi=100, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1.0))
    figure.suptitle(f"{view.title}, {view.observation.time_s:,.6g} s", fontsize=10)
    PICTURES.get(view.spec.scenario, _features)(view, left)
    _candidates(view, right)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:, :, :3]


def _candidates(view: View, axes: Any) -> None:
    rows = view.observation.candidates[:_ROWS]
    largest = np.abs(view.observation.candidates).max(axis=0, initial=0.0)
    scaled = np.abs(rows) / np.where(largest > 0, largest, 1.0)
    feasible = view.observation.feasible[:_ROWS, None].astype(float)
    axes.imshow(np.hstack([feasible, scaled]), aspect="auto", cmap="Blues", vmin=0, vmax=1)
    axes.axvline(0.5, color="black", linewidth=0.8)
    names = ["feasible", *(feature.name for feature in view.spec.candidates)]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_title(f"candidates: {len(rows)} of {len(view.observation.candidates)}", fontsize=9)


def _features(view: View, axes: Any) -> None:
    """Draw the features of the moment, each in units of its scale."""
    features = view.spec.context[:_ROWS]
    values = [v / f.scale for v, f in zip(view.observation.context, features, strict=False)]
    axes.barh(range(len(features)), values, color="tab:blue")
    axes.set_yticks(range(len(features)), [feature.name for feature in features], fontsize=7)
    axes.invert_yaxis()
    axes.set_title("features of the moment, in units of their scale", fontsize=9)


def _slots(view: View, axes: Any) -> None:
    """Draw the grid of both resources, and the visible jobs: length down, slots across."""
    blocks = []
    for resource in ("cpu", "memory"):
        free = np.array(list(view.moment(f"free_{resource}_").values()))
        slots = int(next(f.high for f in view.spec.context if f.name == f"free_{resource}_00"))
        row = [_filled(slots - free, slots)]
        for i in range(int(view.column("move_on").argmax())):
            length = np.arange(len(free)) < view.column("length")[i]
            row.append(_filled(length * view.column(resource)[i], slots))
        blocks.append(np.hstack([np.pad(b, ((0, 1), (0, 1)), constant_values=0.4) for b in row]))
    axes.imshow(np.vstack(blocks), aspect="auto", cmap="gray_r", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(
        f"cpu above, memory below: cluster, then visible jobs; backlog "
        f"{view.moment('backlog')['backlog']:.0f}",
        fontsize=9,
    )


def _filled(count: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
    """Return rows of `slots` cells of which the first `count` are 1."""
    return (np.arange(slots) < count[:, None]).astype(float)


def _binpack(view: View, axes: Any) -> None:
    """Draw the free cores and memory of the machines that candidates are on."""
    machine, first = np.unique(view.column("machine"), return_index=True)
    first, machine = first[machine >= 0], machine[machine >= 0]
    largest = view.moment("machine_")
    for shift, name in ((-0.2, "cores"), (0.2, "memory")):
        share = view.column(f"free_{name}")[first] / max(largest[f"machine_{name}"], 1e-12)
        axes.barh(np.arange(len(machine)) + shift, share, height=0.4, label=f"free {name}")
    axes.set_yticks(range(len(machine)), [f"machine {m:.0f}" for m in machine], fontsize=7)
    axes.set_xlim(0, 1)
    axes.legend(fontsize=7)
    axes.set_title("machines of the candidates, share of the largest machine", fontsize=9)


def _deferrable(view: View, axes: Any) -> None:
    """Draw the capacity up to now, and from when until when each job may start."""
    past = list(view.moment("capacity_").values())[::-1]
    now = view.moment()
    axes.plot(range(-len(past), 1), [*past, now["capacity"]], label="capacity")
    axes.plot([0], [now["running_cores"]], "o", label="cores of running jobs")
    axes.set_xlabel("slots from now")
    axes.set_ylabel("cores")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, loc="upper right")
    waiting = (view.column("is_startable") + view.column("is_future")) > 0
    begin, end = view.column("until_earliest")[waiting], view.column("until_latest")[waiting]
    jobs = axes.twinx()
    jobs.hlines(range(len(begin)), np.maximum(begin, 0), end, color="tab:green", linewidth=1)
    jobs.set_yticks([])
    axes.set_title("capacity (left), jobs from earliest to latest start (right)", fontsize=9)


def _gpupack(view: View, axes: Any) -> None:
    """Draw how full the cluster is, and CPU and GPUs left on the places of the candidates."""
    now = view.moment()
    gpu, cpu = view.column("free_gpu") / 1000, view.column("free_cpu") / 1000
    axes.scatter(gpu, cpu, s=20 + 4 * view.column("count"), c=view.column("fragments"),
                 cmap="viridis", edgecolors="k")  # fmt: skip
    axes.set_xlabel("GPUs left on the node")
    axes.set_ylabel("CPUs left on the node")
    axes.set_title(
        f"allocated: {now['allocated_gpu']:.0%} of GPUs, {now['allocated_cpu']:.0%} of CPUs, "
        f"fragments {now['fragment_ratio']:.0%} of idle GPUs\nthe pod asks for "
        f"{now['pod_gpus'] * now['pod_milli'] / 1000:g} GPUs, {now['pod_cpu'] / 1000:g} CPUs; "
        "size: nodes, colour: fragments",
        fontsize=8,
    )


def _multicluster(view: View, axes: Any) -> None:
    """Draw the occupation of every cluster in the last steps."""
    clusters = sum(name.endswith("_index") for name in view.moment())
    for c in range(clusters):
        past = list(view.moment(f"cluster{c}_occupation_").values())
        missed = view.moment(f"cluster{c}_missed")[f"cluster{c}_missed"]
        axes.plot(-np.arange(1, len(past) + 1), past, label=f"cluster {c}, missed {missed:.2g}")
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=7, loc="upper left")
    axes.set_xlabel("steps from now")
    axes.set_title("share of the executors occupied", fontsize=9)


def _thermal(view: View, axes: Any) -> None:
    """Draw the servers on their grid: colour is usage, size is heat."""
    heat, usage = view.column("heat"), view.column("usage")
    x, y = view.column("x"), view.column("y")
    axes.scatter(x, y, s=100 + 20 * heat, c=usage, cmap="viridis", vmin=0, vmax=1, edgecolors="k")
    for i in range(len(x)):
        axes.annotate(f"{usage[i]:.0%}", (x[i], y[i]), (0, 18), textcoords="offset points",
                      ha="center", fontsize=7)  # fmt: skip
    axes.margins(0.3)
    total = view.moment("total_heat")["total_heat"]
    axes.set_title(f"servers: usage (colour), heat (size); total heat {total:.4g}", fontsize=9)


# Functions (view, axes) that draw the cluster of a scenario.
PICTURES: Final = Registry[Callable[[View, Any], None]]("pictures", {
    "binpack": _binpack,
    "deferrable": _deferrable,
    "gpupack": _gpupack,
    "multicluster": _multicluster,
    "slots": _slots,
    "thermal": _thermal,
})  # fmt: skip
