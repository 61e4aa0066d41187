"""`hindcast decide`: choose the jobs that a real machine should start, with reasons.

A policy that was trained on a log of decisions chooses in the schema of that log.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.flows.runs.states import STDIN, parsed, texts_of
from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.notes import tell
from hindcast.pipeline.storage.location import location

_WIDE: Final = 7  # digits of a number in a table
_OF_LOGS: Final = ("dataset", "log", "epsilon", "seed")
_OF_BOTH: Final = ("policy", "states", "serve", "rows")


@dataclass(frozen=True)
class Request:
    """Policy, states of a machine with the limits of its guard, or records of a log's schema."""

    policy: p.Name = p.argument("rule, or folder of a checkpoint", metavar="POLICY")
    states: p.Folder = p.argument(
        "file of a state as JSON, or of many as JSON lines (default: stdin); of records for a "
        "policy of a log of decisions", default=STDIN, nargs="?", metavar="STATES",
    )  # fmt: skip
    scenario: p.Name = p.option("scenario of the states", default="queue")
    recipe: str = p.option(
        "recipe whose [config] the policy acts under (default: that of the scenario)",
        default="",
        metavar="RECIPE",
    )
    overrides: tuple[p.Override, ...] = p.overrides()
    shadow: p.Folder = p.option(
        "file of states in which `done` says what was started; compare, and count",
        default="",
        metavar="FILE",
    )
    serve: bool = p.option(
        "answer each line of stdin at once, a state or an error, until it ends", default=False
    )
    first: bool = p.option("make the first decision of a moment alone", default=False)
    why: tuple[p.Name, ...] = p.option(
        "id of a waiting job: say why it starts now, or why not; may be repeated", default=(),
        flag="--why", action="extend", metavar="JOB",
    )  # fmt: skip
    rows: Annotated[int, p.Bounds("N", ge=0, le=1_000_000)] = p.option(
        "candidates that are shown with their features, the best ones; of a linear policy of a "
        "log, the features that speak for its choice", default=3,
    )  # fmt: skip
    longest_wait: float = p.option(
        "hours after which a waiting job goes first; 0 for no limit", default=0.0, metavar="HOURS"
    )
    range: float = p.option(
        "standard deviations from the mean in training beyond which a rule decides; 0 for no limit",
        default=0.0,
        metavar="SD",
    )
    margin: float = p.option(
        "difference of the two best scores below which a rule decides; 0 for no limit",
        default=0.0,
        metavar="M",
    )
    probability: float = p.option(
        "probability of the best candidate (softmax of the scores) below which a rule decides; 0 "
        "for no limit", default=0.0, metavar="P",
    )  # fmt: skip
    rule: p.Name = p.option("rule that decides then", default="fcfs_easy", metavar="RULE")
    starts: p.Folder = p.option(
        "log of the machine: say also when the waiting jobs start, see `hindcast start`; under "
        "the policy, or under --rule if it is an agent",
        default="", metavar="LOG",
    )  # fmt: skip
    epsilon: float = p.option(
        "log of decisions: share that is drawn uniformly; with 0 every choice is certain, and a "
        "log of certain choices answers nothing about other policies", default=0.0, metavar="E",
    )  # fmt: skip
    seed: p.Seed = p.option(
        "log of decisions: seed of the draws, with the id of each decision", default=0
    )
    log: p.Folder = p.option(
        "log of decisions: file to which records with their choices are appended; beside it are "
        "its mapping, for `hindcast ingest decisions`, and a file for the rewards",
        default="", metavar="FILE",
    )  # fmt: skip
    dataset: p.Folder = p.option(
        "log of decisions: its dataset, for a rule such as lowest:price; checkpoints know theirs",
        default="",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError for options that exclude each other, and for an unknown policy or file."""
    if request.shadow and (request.states != STDIN or request.serve):
        raise InputError("--shadow is itself a file of states; leave out STATES and --serve")
    if request.serve and request.states != STDIN:
        raise InputError("--serve reads states from stdin; leave out STATES")
    if request.overrides and not request.recipe:
        raise InputError("--set changes a recipe, expected --recipe too")
    source = request.shadow or request.states
    if source != STDIN and not location(source).is_file():
        raise InputError(f"{source}: no such file, expected states as JSON or JSON lines")
    if request.starts and not location(request.starts).exists():
        raise InputError(f"{request.starts}: no such file, expected a log of jobs")
    of_log = _is_of_log(request)
    for name, field in Request.__dataclass_fields__.items():
        other = name not in (*_OF_LOGS, *_OF_BOTH) if of_log else name in _OF_LOGS
        if other and getattr(request, name) != field.default:
            which = "states of a machine" if of_log else "logs of decisions"
            raise InputError(
                f"decide: --{name.replace('_', '-')} is for {which}, for which {request.policy} "
                "does not decide"
            )
    if not of_log:
        _decider(request)


def _is_of_log(request: Request) -> bool:
    """Return whether a request is for records of a log of decisions."""
    if request.dataset or request.policy.startswith(("lowest:", "highest:")):
        return True
    from hindcast.policies.deciding_logs import decides_for_log

    return decides_for_log(request.policy)


def _forecaster(request: Request) -> Any:
    """Return what answers when jobs start, None if that is not asked for."""
    if not request.starts:
        return None
    from hindcast.flows.runs.starts import Source, starts
    from hindcast.pipeline.whatif.orders import policy_of

    rule = request.policy if policy_of(request.policy) else request.rule
    return starts(Source(request.starts), rule)


def _decider(request: Request) -> Any:
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.deciding import Guard, load_decider, require_live_state

    require_live_state(request.scenario)
    config = None
    if request.recipe:
        recipe = load_recipe(request.recipe, request.overrides)
        if recipe.scenario != request.scenario:
            raise InputError(
                f"{recipe.id}: its scenario is {recipe.scenario}, expected {request.scenario}"
            )
        config = recipe.config
        if request.starts and (len(config.resources) > 1 or config.pools):
            raise InputError(
                f"{recipe.id}: --starts plays processors of one machine alone, and this recipe has "
                "more resources or pools; leave out --starts"
            )
    guard = Guard(
        request.longest_wait, request.range, request.margin, request.probability, request.rule
    )
    rows = 1_000_000 if request.why else request.rows  # reasons need all candidates
    return load_decider(request.policy, request.scenario, config, guard, rows)


def run(request: Request) -> dict[str, Any]:
    """Decide for all states; print the answers at once with --serve, and return them otherwise.

    Records of a log of decisions are answered at once in any case.
    """
    if _is_of_log(request):
        return _decide_records(request)
    decider, answers, forecaster = _decider(request), list[dict[str, Any]](), _forecaster(request)
    counts = Counter[str](states=0, starts=0)
    for where, text in _lines(request):
        try:
            answer = _answer(request, decider, where, text)
            if forecaster is not None:
                answer["forecast"] = forecaster.answer(parsed(text, where), where=where)
        except HindcastError as error:
            if not request.serve:
                raise
            counts["errors"] += 1
            _print({"error": " ".join(str(error).split())})
            continue
        _count(counts, answer)
        if request.serve:
            _print(answer)
        else:
            answers.append(answer)
    made = decider.made.items()
    decisions = {name: number for name, number in made if number or name == "policy"}
    policy = {"policy": decider.name, **({"formula": decider.formula} if decider.formula else {})}
    return {"answers": answers, "summary": {**policy, **counts, "decisions": decisions}}


def _decide_records(request: Request) -> dict[str, Any]:
    """Answer each record of a log's schema with a line, or with its error."""
    from hindcast.policies.deciding_logs import CERTAIN, load_log_decider

    decider = load_log_decider(
        request.policy, location(request.dataset) if request.dataset else None,
        epsilon=request.epsilon, seed=request.seed, reasons=request.rows,
        log=location(request.log) if request.log else None,
    )  # fmt: skip
    if decider.certain:
        tell(f"warning: {CERTAIN}")
    errors = 0
    for where, line in _raw_lines(request.states):
        try:
            answer = decider.decide(parsed(line, where, "a record"), where)
        except HindcastError as error:
            errors += 1
            answer = {"error": " ".join(str(error).split())}
        _print(answer)
    summary = {"policy": decider.name, "decisions": decider.made, "epsilon": decider.epsilon,
               **({"log": request.log} if request.log else {}),
               **({"errors": errors} if errors else {})}  # fmt: skip
    return {"answers": [], "summary": summary}


def _answer(request: Request, decider: Any, where: str, text: str | bytes) -> dict[str, Any]:
    from hindcast.policies.deciding import agreement

    state = parsed(text, where)
    answer: dict[str, Any] = decider.decide(state, first=request.first, where=where)
    if request.why:
        from hindcast.pipeline.schedules.reasons import why_in_state

        answer["why"] = [why_in_state(answer, job, where) for job in request.why]
        for choice in answer["decisions"]:
            _cut(choice, request.rows)
    if "done" in state:
        answer |= agreement(answer, state["done"], where)
    elif request.shadow:
        raise InputError(
            f"{where}: done is missing, expected the jobs that were started: an id, a list of ids, "
            "or null"
        )
    return answer


def _cut(choice: dict[str, Any], most: int) -> None:
    """Keep so many rows of a decision, the chosen one always."""
    rows = choice["rows"][:most]
    if rows and choice["choice"] not in [row["id"] for row in rows]:
        rows[-1] = next(row for row in choice["rows"] if row["id"] == choice["choice"])
    choice["rows"] = rows


def _count(counts: Counter[str], answer: Mapping[str, Any]) -> None:
    counts["states"] += 1
    counts["starts"] += len(answer["start"])
    if "set_aside" in answer:
        counts["set_aside"] += len(answer["set_aside"])
    if "done" in answer:
        counts["agree"] += answer["agrees"]
        counts["compared"] += 1
        counts["done_starts"] += len(answer["done"])
        counts["same_starts"] += answer["same"]


def _lines(request: Request) -> Iterator[tuple[str, str | bytes]]:
    """Return each state as JSON, behind the name of its file and line."""
    if request.serve:
        yield from _raw_lines(STDIN)
        return
    yield from texts_of(request.shadow or request.states)


def _raw_lines(source: str) -> Iterator[tuple[str, str | bytes]]:
    """Yield each line at once, as bytes: one that is not UTF-8 does not end the process."""
    name = "stdin" if source == STDIN else source
    stdin = nullcontext(getattr(sys.stdin, "buffer", sys.stdin))
    with stdin if source == STDIN else location(source).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{name}, line {number}", line


def _print(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def show(result: Mapping[str, Any]) -> Shown:
    """Return the answers and the summary."""
    answers, summary = result["answers"], result["summary"]
    code = 2 if summary.get("errors") else 0
    rows = [*answers, {"summary": summary}]
    if not answers:
        return Shown([json.dumps({"summary": summary}, ensure_ascii=False)], rows, code)
    lines = [line for answer in answers for line in _text(answer)]
    counts = ", ".join(f"{name} {number:,}" for name, number in summary["decisions"].items())
    lines.append(f"{summary['policy']}: {summary['states']:,} states; decisions by {counts}")
    if "formula" in summary:
        lines.append(f"  score: {summary['formula']}")
    if "compared" in summary:
        share = summary["agree"] / summary["compared"]
        lines.append(
            f"  as was done: {summary['agree']:,} of {summary['compared']:,} states ({share:.1%}); "
            f"{summary['same_starts']:,} of {summary['done_starts']:,} starts"
        )
    return Shown(lines, rows, code)


def _text(answer: Mapping[str, Any]) -> Iterator[str]:
    """Return one answer as lines, the candidates of each decision as a table."""
    name = f"state {answer['id']} at {answer['now']}" if "id" in answer else f"at {answer['now']}"
    start = ", ".join(map(str, answer["start"])) or "nothing"
    head = answer["reservation"]
    more = "" if head is None else f"; keep the machine free for {head['id']} at {head['start']}"
    yield f"{name}: start {start}{more}"
    for job in answer.get("set_aside", ()):
        yield f"  set aside job {job['id']}: {job['reason']}"
    if "done" in answer:
        done = ", ".join(map(str, answer["done"])) or "nothing"
        yield f"  done: {done} ({'the same' if answer['agrees'] else 'not the same'})"
    for reason in answer.get("why", ()):
        yield f"  why {reason['id']}: {' '.join(reason['sentences'])}"
    if "forecast" in answer:
        from hindcast.flows.runs.starts import text_of

        yield from (f"  {line}" for line in text_of(answer["forecast"]))
    for choice in answer["decisions"]:
        by = ""
        if choice["by"] != "policy":
            by = f", by {choice['by']} in place of {choice['policy_choice']}"
        margin = "" if choice["margin"] is None else f", margin {_number(choice['margin'])}"
        yield (
            f"  {choice['action']} {choice['choice']}: score {_number(choice['score'])}{margin}, "
            f"{choice['feasible']} of {choice['candidates']} feasible{by}"
        )
        if "outside" in choice:
            yield f"    out of range: {', '.join(choice['outside'])}"
        yield from _table(choice.get("rows", []))


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Return the candidates as columns: each feature, and its part of the score in brackets."""
    if not rows:
        return
    table = [["", *(str(row["id"]) for row in rows)]]
    table.append(["score", *(_number(row["score"]) for row in rows)])
    parts = rows[0].get("contributions", {})
    for name in rows[0]["features"]:
        cells = [_number(row["features"][name]) for row in rows]
        if name in parts:
            cells = [
                f"{cell} ({row['contributions'][name]:+.3g})"
                for cell, row in zip(cells, rows, strict=True)
            ]
        table.append([name, *cells])
    table += [
        [name, *(f"({row['contributions'][name]:+.3g})" for row in rows)]
        for name in parts
        if name not in rows[0]["features"]
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        yield f"    {'  '.join(cells).rstrip()}"


def _number(value: float) -> str:
    return f"{value:.{_WIDE - 2}g}"


COMMANDS: Final = {"decide": Command(
    "hindcast decide saf_easy state.json",
    Request,
    "A state is what the batch system knows at a moment: the machine, the jobs that run and\n"
    "wait, and runs that have ended. The page 'Decide for a real machine' of the documentation\n"
    "has every key. The decisions of the moment follow each other as in the simulator.\n"
    "A policy of a log of decisions answers a record a line, in the names of that log:\n\n"
    "  hindcast decide agents/mine records.jsonl --epsilon 0.1 --log served.jsonl",
)}  # fmt: skip
