"""`hindcast submit` and `check-submission`: an evaluation in one file that others score again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, cautions_in
from hindcast.flows.progress import note, progress
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Evaluation to submit, and the file to write."""

    evaluation: p.Folder = p.argument("folder that `hindcast evaluate` wrote")
    out: p.Folder = p.option("file to write, such as mine.zip; it must not exist", metavar="FILE")
    plan: p.Folder | None = p.option(
        "plan of the evaluation, if it had one", default=None, metavar="FILE"
    )


@dataclass(frozen=True)
class Check:
    """Submission to score again."""

    submission: p.Folder = p.argument("file that `hindcast submit` wrote")
    run_code: bool = p.option(
        "run Python code of the submission, with your rights; without it, policies that are code "
        "are not scored again", default=False,
    )  # fmt: skip
    workers: p.Workers = p.workers()
    trace: p.Folder | None = p.trace()


def check(request: Request | Check) -> None:
    """Raise InputError if the file to write exists already."""
    if isinstance(request, Request) and location(request.out).exists():
        raise InputError(f"{request.out}: exists already; choose another --out")


def run(request: Request | Check) -> dict[str, Any]:
    """Pack an evaluation into one file, or score such a file again."""
    return _submit(request) if isinstance(request, Request) else _check(request)


def _submit(request: Request) -> dict[str, Any]:
    from hindcast.pipeline.evaluation import submissions as s
    from hindcast.pipeline.evaluation.looks import others
    from hindcast.pipeline.evaluation.summary.cautions import cautions_of
    from hindcast.pipeline.workloads.caveats import to_json
    from hindcast.policies.entrants import entrants, packed

    folder = location(request.evaluation)
    recipe, split, policies = s.recipe_of(folder)
    if lost := [str(one["name"]) for one in policies if one.get("digest") and "word" not in one]:
        raise InputError(
            f"{folder}: {lost[0]} was an object of a program; name the folder of its checkpoint, "
            "or its file and function, and evaluate again"
        )
    words = list(dict.fromkeys(str(one.get("word", one["name"])) for one in policies))
    found = entrants(recipe, words)
    if told := s.differences_of(policies, found):
        raise InputError(f"{folder}: {told[0]}; submit from the folder where it was evaluated")
    looks = others(recipe, split, [str(each.digest) for each in found if each.is_agent])
    inside, files = packed(recipe, words)
    plan = None if request.plan is None else location(request.plan)
    digest = s.write_submission(location(request.out), folder, plan, inside, files, looks)
    agents = dict.fromkeys(each.group for each in found if each.kind == "learned")
    return {"submission": request.out, "sha256": digest, "recipe": recipe.id, "split": split,
            "cautions": to_json(cautions_of(folder)), "agents": list(agents),
            "files": sorted(files), "looks": looks}  # fmt: skip


def _check(request: Check) -> dict[str, Any]:
    from hindcast.pipeline.evaluation import submissions as s
    from hindcast.pipeline.evaluation.summary.cautions import cautions_of
    from hindcast.pipeline.storage.files import scratch
    from hindcast.pipeline.workloads.caveats import to_json

    path = location(request.submission)
    with scratch() as folder:
        submission = s.unpack(path, folder / "submission")
        cautions = to_json(cautions_of(submission.folder))
        checks = [
            s.Check("files", s.HOLDS, "all have the digests of the manifest"),
            s.check_recipe(submission), s.check_plan(submission), s.check_seeds(submission),
            s.check_looks(submission), *_played(request, submission, folder / "again"),
        ]  # fmt: skip
    return {"submission": request.submission, "recipe": submission.recipe.id,
            "cautions": cautions, "checks": [one._asdict() for one in checks]}  # fmt: skip


def _played(request: Check, submission: Any, again: Path) -> list[Any]:
    """Return the checks of policies and scores, which are played again."""
    from hindcast.pipeline.evaluation import submissions as s
    from hindcast.pipeline.evaluation.evaluate import evaluate
    from hindcast.pipeline.evaluation.summary.evaluations import read_scores
    from hindcast.policies.entrants import entrants

    recipe, code = (
        _with_trace(request, submission.recipe),
        [w for w in submission.words if ":" in w],
    )
    words = [word for word in submission.words if request.run_code or word not in code]
    if code and request.run_code:
        note(f"{request.submission}: running its code, {', '.join(code)}")
    inside = [
        re.sub(r"(^|[=,])(?=policies/)", rf"\g<1>{submission.folder}/", word) for word in words
    ]
    found = entrants(recipe, inside) if inside else []
    names = [each.behaviour.name for each in found]
    claimed = [one for one in submission.policies
               if request.run_code or one["name"] in names or "code" not in one]  # fmt: skip
    if told := s.differences_of(claimed, found):
        return [s.Check("policies", s.FAILS, "; ".join(told)),
                s.Check("scores", s.OPEN, "not played, since policies are others")]  # fmt: skip
    left = [str(one["name"]) for one in submission.policies if one["name"] not in names]
    detail = f"{len(found)} have the digests and kinds of the evaluation"
    if left:
        detail += f"; not run, since they are code: {', '.join(left)} (--run-code)"
    policies = s.Check("policies", s.OPEN if left else s.HOLDS, detail)
    if not found:
        return [policies, s.Check("scores", s.OPEN, "every policy is code")]
    with progress(f"evaluate on {submission.split}") as tell:
        evaluate(
            recipe, found, split=submission.split, out=again, workers=request.workers,
            decide=submission.decides and not left, progress=tell,
        )  # fmt: skip
    scores = s.check_scores(submission, read_scores(again), names)
    return [policies, s.check_reading(submission, again), scores]


def _with_trace(request: Check, recipe: Any) -> Any:
    """Return the recipe with the given trace; raise InputError if it names a file of its own."""
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.shipped import known_recipes
    from hindcast.pipeline.recipes.workload_source import check_trace

    check_trace(recipe, request.trace)
    if request.trace is not None:
        return replace(recipe, trace=replace(recipe.trace, path=request.trace))
    name = recipe.to_dict()["id"]
    own = load_recipe(name).trace.path if name in known_recipes() else ""
    if recipe.trace.path != own:
        raise InputError(
            f"{request.submission}: its recipe reads {recipe.trace.path}, a file of the "
            "submitter's; name your copy with --trace"
        )
    return recipe


def show(result: Mapping[str, Any]) -> Shown:
    """Return what was packed, or a line per check; the exit code is 1 if one fails.

    Cautions come first. With one, a submission of which every check holds is not said to hold.
    """
    cautions = cautions_in(result)
    if "checks" not in result:
        looks = result["looks"]
        looked = "not counted" if looks is None else f"{looks}, by the ledger of this machine"
        agents = ", ".join(result["agents"]) or "no agent"
        head = f"{result['submission']}: {agents} on {result['split']} of {result['recipe']}"
        return Shown([
            *cautions, head,
            f"  SHA-256 {result['sha256']}", *(f"  {name}" for name in result["files"]),
            f"  other agents scored on these windows: {looked}",
        ])  # fmt: skip
    states = [check["state"] for check in result["checks"]]
    verdict = (
        "something FAILS" if "FAILS" in states
        else "nothing fails, something was not checked" if "not checked" in states
        else "nothing fails" if cautions
        else "everything holds"
    )  # fmt: skip
    if cautions:
        verdict += f"; read the {count_of(len(cautions), 'caution')} above"
    lines = [f"  {c['name']}: {c['state']}: {c['detail']}" for c in result["checks"]]
    head = f"{result['submission']}: {verdict}"
    return Shown([*cautions, head, *lines], code=int("FAILS" in states))


COMMANDS: Final = {"submit": Command(
    "hindcast submit evaluations/demo --out mine.zip",
    Request,
    "The file holds scores, plan, and the checkpoints or code of the policies, as they are.",
), "check-submission": Command(
    "hindcast check-submission mine.zip",
    Check,
    "The exit code is 1 if something does not hold. Looks and the time of the plan are the\n"
    "submitter's word.",
)}  # fmt: skip
