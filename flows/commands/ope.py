"""`hindcast ope`: estimate the returns of policies from a dataset."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.progress import progress
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location

_TRUTH_SEEDS: Final = 5


@dataclass(frozen=True)
class Request:
    """Dataset, policies whose returns are estimated from it, and the settings of the estimates."""

    dataset: p.Folder = p.argument("folder of a dataset")
    out: p.Folder | None = p.option("folder for estimates.parquet and ope.json", default=None)
    policies: tuple[p.Name, ...] = p.option(
        "names of policies or folders of checkpoints (default: the recipe's policies; of a log of "
        "decisions uniform)", default=(),
        flag="--policy", action="extend", metavar="POLICY")  # fmt: skip
    split: p.Name | None = p.option(
        "split whose episodes are weighted (default: validation; of a log of decisions all)",
        default=None)  # fmt: skip
    epsilon: float | None = p.option(
        "exploration of the evaluated policies (default: that of the log's rules)", default=None,
        metavar="E")  # fmt: skip
    temperature: float = p.option(
        "softmax temperature of the policies' scores; 0 takes the best score", default=0.0,
        metavar="T")  # fmt: skip
    estimators: tuple[p.Name, ...] = p.option(
        "estimators, some of those above (default: all)", default=(), metavar="NAME"
    )
    propensities: Literal["mixture", "logged", "estimated"] = p.option(
        "propensities of the mixture of a window's behaviours, of the behaviour that decided, or "
        "those that `hindcast behaviour` estimated", default="mixture")  # fmt: skip
    limit: p.Count = p.option("decisions to read of a split, in whole windows", default=100_000)
    fqe_steps: p.Count = p.option(
        "gradient steps of fitted Q evaluation for each policy", default=1500
    )
    seed: p.Seed = p.option("seed of all random draws", default=0)
    truth: bool = p.option(
        "simulate the policies for comparison; --no-truth leaves that out", default=True,
        flag="--no-truth", help="do not simulate the policies for comparison")  # fmt: skip
    truth_seeds: p.Count = p.option(
        "episodes per window and policy of that simulation; more make the truth more exact",
        default=_TRUTH_SEEDS,
    )
    command: str = p.hidden("command line that is kept in ope.json", "")
    accept: tuple[p.Name, ...] = p.option(
        "log of decisions: contradiction that is accepted, such as propensities_contradicted",
        default=(), action="extend", metavar="CODE")  # fmt: skip
    estimate_propensities: bool = p.option(
        "log of decisions: estimate the propensities that it lacks", default=False
    )


def check(request: Request) -> None:
    """Raise InputError for a file, and for seeds of a simulation that is left out."""
    if location(request.dataset).is_file():
        raise InputError(
            f"{request.dataset}: this is a file, expected a dataset; `hindcast init` and `hindcast "
            "ingest decisions` make one of a log of decisions"
        )
    if not request.truth and request.truth_seeds != _TRUTH_SEEDS:
        raise InputError("ope: --truth-seeds is for the simulation, which --no-truth leaves out")


def run(request: Request) -> dict[str, Any]:
    """Estimate the returns of policies from a dataset, beside those in the simulator."""
    from hindcast.policies.ope import logs
    from hindcast.policies.ope.ope import OPESettings, evaluate_offline
    from hindcast.policies.ope.results import trials_of

    if logs.is_log(location(request.dataset)):
        return _of_log(request)
    if request.accept or request.estimate_propensities:
        raise InputError("ope: --accept and --estimate-propensities are for logs of decisions")
    names = (
        "split", "epsilon", "temperature", "propensities", "limit", "fqe_steps", "truth_seeds",
        "seed",
    )  # fmt: skip
    settings = {name: getattr(request, name) for name in names}
    settings["split"] = request.split or "validation"
    if request.estimators:
        settings["estimators"] = request.estimators
    if not request.truth:
        settings["truth_seeds"] = 0
    with progress("estimate") as tell:
        result = evaluate_offline(
            location(request.dataset), request.policies, OPESettings(**settings),
            out=None if request.out is None else location(request.out),
            command=request.command, progress=tell,
        )  # fmt: skip
    return {
        "about": {**result.description, "out": request.out}, "rows": result.rows.to_dicts(),
        "trials": trials_of(result.rows).to_dicts(),
    }  # fmt: skip


def _of_log(request: Request) -> dict[str, Any]:
    """Return what a log of decisions says about the policies.

    `log` has a sentence about each policy, `support` how far the log can tell, `rows` the
    estimates, and `trials` what the best of several would be worth.
    """
    from hindcast.policies.ope import logs

    out = None if request.out is None else location(request.out)
    found = logs.ask(
        location(request.dataset), request.policies, split=request.split, accept=request.accept,
        estimate_propensities=request.estimate_propensities, seed=request.seed, out=out,
        command=request.command,
    )  # fmt: skip
    return {
        "log": logs.described(found, location(request.dataset)), "out": request.out,
        "support": found.support.to_dicts(), "rows": found.estimates.to_dicts(),
        "trials": found.trials.to_dicts(),
    }  # fmt: skip


def _show_log(result: Mapping[str, Any]) -> Shown:
    """Return the sentence of each policy, then its weights and its estimates."""
    log, logged = result["log"], result["log"]["logged"]
    mean = _interval(logged, "value", "low", "high")
    lines = [f"{log['dataset']}: mean of the log {mean}, {logged['decisions']:,} decisions"]
    if (asked := len(result["support"])) > 1:
        lines.append(f"intervals of 95%, below simultaneous over the {asked} policies")
    for of_policy in result["support"]:
        policy = of_policy["policy"]
        lines.append(log["sentences"][policy])
        if of_policy["ess"] is not None:
            split = "" if of_policy["split"] == "all" else f" of split {of_policy['split']}"
            lines.append(
                f"  ess {of_policy['ess']:,.1f} of {of_policy['decisions']:,}{split}, mean weight "
                f"{_number(of_policy['mean_weight'])} (se {_number(of_policy['mean_weight_se'])}), "
                f"largest weight {_number(of_policy['largest_weight'])}, "
                f"{of_policy['largest_share']:.0%} of the sum"
            )
        for row in result["rows"]:
            if row["policy"] == policy and row["estimator"] != "none":
                kind = "" if row["propensities"] == "logged" else row["propensities"]
                marks = ", ".join(filter(None, [row["verdict"], kind, row["accepted"]]))
                lines.append(_estimate(row, 15, marks))
    lines += _trials(result["trials"])
    if result["out"]:
        lines.append(result["out"])
    warnings = [caution["text"] for caution in log["cautions"]]
    return Shown(lines, [log, *result["rows"]], warnings=warnings)


def _trials(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """Return what the best of the first k policies is worth, if k of them are tried online."""
    if not rows:
        return
    yield (
        "best of the first k, in the order of one half of the units, by the values of the other "
        "half (of several the highest is too high on average; the intervals hold for all at once):"
    )
    for row in rows:
        value = _interval(row, "value", "low", "high")
        yield f"  {row['trials']}: with {row['policy']}, the best is {row['best']}, {value}"


def show(result: Mapping[str, Any]) -> Shown:
    """Return the estimates and true return of each policy, then the metrics of the estimators."""
    if "log" in result:
        return _show_log(result)
    about, rows = result["about"], result["rows"]
    read = f"{about['episodes']:,} episodes of {about['windows']:,} {about['split']} windows"
    lines = [
        f"{about['dataset']}: {read}, mean logged return {_number(about['logged_return'])}",
        f"policies explore with epsilon {about['epsilon']:g}, temperature {about['temperature']:g}",
    ]
    for policy, of_policy in groupby(rows, key=lambda row: row["policy"]):
        lines += [about["sentences"][policy], *_policy(list(of_policy))]
    lines += _selection(about)
    by = (about.get("order") or {}).get("by")
    if tried := [row for row in result.get("trials", ()) if row["estimator"] == by]:
        found = (
            f"{row['trials']} {row['best']} {_interval(row, 'value', 'low', 'high')}"
            for row in tried
        )
        lines.append(f"true return of the best of the first k by {by}: {', '.join(found)}")
    lines += [f"note: {note}" for note in about["notes"]]
    if about["out"]:
        lines.append(about["out"])
    return Shown(lines, [about, *rows])


def _policy(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the true return of a policy, a line for each of its estimates, and their warnings."""
    first = rows[0]
    origin = ", a behaviour of the log" if first["logged"] else ""
    truth = "not known"
    if first["truth"] is not None:
        truth = _interval(first, "truth", "truth_low", "truth_high")
    covered = "" if first["coverage"] is None else f", coverage {first['coverage']:.1%}"
    yield f"  true return {truth}{covered}{origin}"
    warnings: dict[str, list[str]] = {}
    for row in rows:
        size = "" if row["ess"] is None else f"  ess {row['ess']:,.1f} of {row['episodes']:,}"
        left = "" if not row["left_out"] else f", held {row['left_out_held']} of {row['left_out']}"
        if row["value"] is None:
            yield f"  {row['estimator']:<12} {row['verdict']}"
        else:
            yield _estimate(row, 12, f"{row['verdict']}{left}{size}")
        for warning in row["warnings"]:
            warnings.setdefault(warning, []).append(row["estimator"])
    for warning, names in warnings.items():
        yield f"  ! {', '.join(names)}: {warning}"


def _selection(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on coverage, order and selection of policies."""
    order, consensus = about.get("order"), about.get("consensus")
    measured = {name: held for name, held in about["left_out"].items() if held["policies"]}
    if measured:
        told = (f"{name} {held['held']} of {held['policies']}" for name, held in measured.items())
        yield (
            "held: behaviours of the log, each left out once, whose return and difference to the "
            f"log lie in the intervals from the others' episodes: {', '.join(told)}"
        )
    if order is not None:
        yield f"order by {order['by']}, best first: {', '.join(order['policies'])}"
    if consensus is not None:
        yield f"consensus, {consensus['description']}, best first: {', '.join(consensus['order'])}"
    estimators = [*about["estimators"], *([] if consensus is None else [consensus])]
    with_truth = [e for e in estimators if "rank_correlation" in e]
    if not with_truth:
        return
    yield (
        "estimator    rank correlation   of new policies   regret@1   SharpeRatio@3   error I"
        "   error II   "
        f"(against {about['reference'] or 'no heuristic'})"
    )
    unknown = -2.0
    for e in sorted(with_truth, key=lambda e: -(e["rank_correlation"] or unknown)):
        numbers = [
            (e["rank_correlation"], 16), (e["rank_correlation_new"], 17),
            (e["regret"].get("1"), 10), (e["sharpe"].get("3"), 15),
            (e["type_1"], 9), (e["type_2"], 10),
        ]  # fmt: skip
        cells = " ".join(f"{_number(value):>{width}}" for value, width in numbers)
        yield f"{e['name']:<12} {cells}"


def _estimate(row: Mapping[str, Any], width: int, marks: str) -> str:
    """Return the line of an estimate, with its difference to the log and its marks."""
    value = _interval(row, "value", "low", "high")
    paired = _interval(row, "difference", "difference_low", "difference_high")
    return f"  {row['estimator']:<{width}} {value:<32} to the log {paired:<28} {marks}".rstrip()


def _interval(row: Mapping[str, Any], value: str, low: str, high: str) -> str:
    text = _number(row[value])
    if row[low] is None or row[high] is None:
        return text
    return f"{text} [{_number(row[low])}, {_number(row[high])}]"


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.3g}"


COMMANDS: Final = {"ope": Command(
    "hindcast ope demo/dataset --policy tetris agents/tp --out demo/ope",
    Request,
    "estimators: snis snpdis is pdis (importance sampling), paired_snis paired_is tempered\n"
    "(within a window), dr wdr (with fitted Q), dm (fitted Q), gp (similar policies), mwl\n"
    "(marginal weights). The verdict on a policy is that of snis; if left-out behaviours refute\n"
    "snis, that of the next estimator. Policies are ordered by gp.\n"
    "Estimates of gp, tempered, mwl and dm may be biased: they have the verdict beside and no\n"
    "interval, unless the log's own behaviours, each left out once, show that intervals hold.\n"
    "A log of decisions has no simulator: policies are uniform, first, logged, lowest:FEATURE,\n"
    "highest:FEATURE, candidate:ID, column:NAME, a checkpoint or FILE.py:NAME. A sentence says\n"
    "which of these policies the log cannot answer for; the exit code is then 0 too.\n"
    "With --out, the same command, given again, continues after an interruption.",
)}  # fmt: skip
