"""`hindcast pack`: how many nodes a list of pods needs, by which rule, and what others bring."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.progress import progress
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    import polars as pl

_RULES: Final = ("best_fit", "fgd", "fit_starved_scarce")
_KIND: Final = "COUNTxCPUSxMEMORYxGPUS:MODEL"


@dataclass(frozen=True)
class Request:
    """List of pods, nodes of the cluster, and rules that place the pods."""

    pods: p.Folder = p.argument(
        "list of pods (.csv): name, cpu or cpu_milli, memory or memory_mib, num_gpu, and where "
        "pods have them gpu_milli or gpu_share, gpu_spec", metavar="PODS",
    )  # fmt: skip
    nodes: tuple[p.Name, ...] = p.option(
        "kinds of nodes of the cluster, such as 40x64x96Gx8:A100; the number of nodes that is "
        "needed is that of the first kind", nargs="+", metavar=_KIND,
    )  # fmt: skip
    more: tuple[p.Name, ...] = p.option(
        "nodes to add, each alternative alone; may be repeated", default=(), flag="--add",
        action="append", metavar=_KIND,
    )  # fmt: skip
    rules: tuple[p.Name, ...] = p.option(
        f"rules of `gpupack` (default: {', '.join(_RULES)})", default=(), flag="--policy",
        action="extend", metavar="RULE",
    )  # fmt: skip
    refuse: Annotated[float, p.Bounds("PERCENT", ge=0, le=100)] = p.option(
        "percent of the pods that may be refused in any run if nodes are counted", default=0.0
    )
    ends: Literal["never", "recorded"] = p.option(
        "when pods leave: never, or as the list records, whose arrivals are then kept too",
        default="never",
    )
    runs: Annotated[int, p.Bounds("N", ge=1, le=1000)] = p.option(
        "orders in which the pods arrive, drawn", default=5
    )
    seed: p.Seed = p.option("seed of the orders", default=0)


def check(request: Request) -> None:
    """Raise InputError if there is no such list, or nodes or a rule cannot be read."""
    from hindcast.pipeline.errors import unknown_name
    from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
    from hindcast.pipeline.scenarios.gpupack.nodes import nodes_of, read_kind
    from hindcast.pipeline.traces.first_look import no_such_file
    from hindcast.policies.heuristics import find_rule, rules

    if not location(request.pods).exists():
        no_such_file(location(request.pods), "a list of pods, .csv")
    for text in (*request.nodes, *request.more):
        read_kind(text)
    nodes_of(GpupackConfig(nodes=request.nodes))
    for rule in request.rules:
        if find_rule("gpupack", rule) is None:
            raise unknown_name("rule of gpupack", rule, rules("gpupack"))


def run(request: Request) -> dict[str, Any]:
    """Play the pods on the nodes by every rule; count the nodes that suffice."""
    from hindcast.flows.runs.packing import Packing, refused_pods
    from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
    from hindcast.pipeline.scenarios.gpupack.nodes import nodes_of, without_count
    from hindcast.pipeline.traces import FORMATS
    from hindcast.pipeline.traces.pods import doubts, most_at_once, not_read

    workload, bad = FORMATS["pods"].reading(location(request.pods))
    packing = Packing(workload, request.runs, request.seed, request.ends)
    tasks, nodes = workload.tasks, nodes_of(GpupackConfig(nodes=request.nodes))
    every = nodes_of(GpupackConfig(nodes=(*request.nodes, *request.more)))
    kind = without_count(request.nodes[0])
    too_large = int((~packing.fits(request.nodes)).sum())
    elsewhere = tasks.sort("job_id").filter(~packing.fits([kind]))
    allowed = too_large + int(request.refuse / 100 * tasks.height)
    allocated = "placed" if request.ends == "never" else "allocated_peak"
    rows: list[dict[str, Any]] = []
    rules = request.rules or _RULES
    with progress("pack") as tell:
        for done, rule in enumerate(rules):
            tell(done, len(rules), rule)
            for added in ("", *request.more):
                given = [*request.nodes, *([added] if added else [])]
                found = packing.outcomes(rule, given)
                refused = refused_pods(found)
                rows.append({
                    "rule": rule,
                    "added": added,
                    "refused_pods": sum(refused) / len(refused),
                    "most_refused_pods": max(refused),
                    "refused_without_gpu": sum(found["refused_none"]) / request.runs,
                    "refused_gpus_percent": sum(found["refused"]) / request.runs,
                    "allocated_percent": sum(found[allocated]) / request.runs,
                })  # fmt: skip
            rows[-1 - len(request.more)]["nodes_needed"] = packing.nodes_needed(
                rule, kind, request.nodes[1:], allowed
            )
        tell(len(rules), len(rules), "done")
    return {
        "pods": request.pods,
        "listed": tasks.height,
        "bad_rows": bad.height,
        "first_bad": "" if bad.is_empty() else f"line {bad['line'][0]}: {bad['reason'][0]}",
        "not_read": not_read(location(request.pods)),
        "doubts": doubts(location(request.pods), tasks, {n.model for n in every}),
        "asked": {
            "gpus": _gpus(tasks),
            "cpus": float(tasks["cpu_milli"].sum()) / 1000,
            "gpus_at_once": most_at_once(tasks),
            "gpus_not_of_kind": _gpus(elsewhere),
        },
        "ends": request.ends,
        "nodes": list(request.nodes),
        "there": {"gpus": sum(n.gpus for n in nodes), "cpus": sum(n.cpu for n in nodes) / 1000},
        "kind": kind,
        "too_large": too_large,
        "allowed": allowed,
        "runs": request.runs,
        "rows": rows,
    }


def _gpus(pods: "pl.DataFrame") -> float:
    return float((pods["num_gpu"] * pods["gpu_milli"]).sum()) / 1000


def show(result: Mapping[str, Any]) -> Shown:
    """Return what is asked for and there, a table by rule, and the nodes that are needed."""
    from hindcast.flows.runs.packing import BEYOND

    asked, there = result["asked"], result["there"]
    wants = f"{asked['gpus']:,.1f} GPUs and {asked['cpus']:,.0f} CPUs"
    lines = [
        f"{result['pods']}: {result['listed']:,} pods ask for {wants}",
        f"{' '.join(result['nodes'])}: {there['gpus']:,} GPUs and {there['cpus']:,.0f} CPUs",
    ]
    if asked["gpus_at_once"] is not None:
        stay = "" if result["ends"] == "recorded" else "; here they stay, unless --ends recorded"
        lines.append(f"by the times of the list they ask for at most {asked['gpus_at_once']:,.1f} "
                     f"GPUs at once{stay}")  # fmt: skip
    if result["bad_rows"]:
        lines.append(f"{count_of(result['bad_rows'], 'row')} left out; {result['first_bad']}")
    if result["not_read"]:
        lines.append(f"columns that are not read: {', '.join(result['not_read'])}")
    if result["too_large"]:
        too_large = count_of(result["too_large"], "pod")
        lines.append(f"{too_large} too large for an empty node of these kinds")
    lines += [f"unsure: {doubt}" for doubt in result["doubts"]]
    titles = ("refused pods", "without GPU", "refused GPUs", "allocated")
    lines += ["", f"{'rule':<22}" + "".join(f"{title:>14}" for title in titles) + "  nodes"]
    for row in result["rows"]:
        added = f"with {row['added']}" if row["added"] else "as given"
        lines.append(
            f"{row['rule']:<22}{row['refused_pods']:>14,.1f}{row['refused_without_gpu']:>14,.1f}"
            f"{row['refused_gpus_percent']:>13.2f}%{row['allocated_percent']:>13.2f}%  {added}"
        )
    orders = f"{result['runs']} drawn orders of arrival"
    use = "GPUs of the cluster in use at the end"
    if result["ends"] == "recorded":
        orders, use = f"{result['runs']} runs with drawn ties", "most GPUs in use at once"
    lines += ["", f"means over {orders}; allocated: {use}", ""]
    few = f"at most {result['allowed']:,} refused pods in every run"
    for row in result["rows"]:
        if "nodes_needed" in row:
            need = row["nodes_needed"]
            count = "no number of nodes has"
            if need is not None:
                count = f"{need:,} to {need + BEYOND:,} nodes have"
            lines.append(f"{row['rule']}: {count} {few} (nodes of {result['kind']})")
    if any(row.get("nodes_needed", 0) is None for row in result["rows"]):
        pods = f"pods that ask for {asked['gpus_not_of_kind']:,.1f} GPUs"
        lines.append(
            f"{pods} do not fit on such a node: name another kind first to count its nodes"
        )
    return Shown(lines, result["rows"])


COMMANDS: Final = {"pack": Command(
    "hindcast pack pods.csv --nodes 40x64x96Gx8:A100 --add 5x96x512Gx8:H100",
    Request,
    "Every pod of the list arrives once, in drawn orders, and stays. It is placed where the rule\n"
    "says, with equal scores drawn, or refused if no node can take it. See the page of `gpupack`.",
)}  # fmt: skip
