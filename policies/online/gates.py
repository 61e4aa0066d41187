"""Gates of online trainings: what is delivered, see `hindcast.policies.training.delivery`."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.online.problem import Problem
from hindcast.policies.training.delivery import ahead, folds, played
from hindcast.policies.training.delivery.folds import Without
from hindcast.policies.training.delivery.verdict import (
    LAST,
    SELECTED,
    Decide,
    Verdict,
    eligible_rules,
    judge_each,
)

OnlineGate: TypeAlias = Literal["simulator", "folds", "lookahead"]


def decide_by(problem: Problem, gate: str, without: Without) -> Decide:
    """Return the function that compares the checkpoints of a training with the best rule.

    `without` repeats the training for the gate "folds". With a guard, only the selected checkpoint
    is compared, since only that one passed; the rule is delivered if no checkpoint did, in the
    training or in one of a fold. Raises InputError for the gate "lookahead" if nothing can look
    ahead in the problem.
    """
    judge = judge_of(problem)
    if gate == "lookahead":
        ahead.check(problem)

    def decide(candidates: Mapping[str, Trained]) -> tuple[Trained, Verdict] | None:
        some = {k: v for k, v in candidates.items() if problem.guard is None or k == SELECTED}
        if gate == "folds":
            judged = folds.decide(problem, rules_of(problem), without, some)
        else:
            judged = judge_each(list(some.values()), judge)
        if judged is None and (verdict := judge(None)) is not None:
            judged = candidates[LAST], verdict
        if gate == "lookahead":
            judged = ahead.beside(problem, judged, guarded=problem.guard is not None)
        return played.with_columns(problem, judged)

    return decide


def judge_of(problem: Problem) -> Callable[[LearnedPolicy | None], Verdict | None]:
    """Return the function that compares an agent with the best rule that the guard lets pass.

    Its policy is None if the guard refused every checkpoint of the training.
    """
    return played.judge_of(problem, rules_of(problem))


def rules_of(problem: Problem) -> list[str]:
    """Return the deterministic rules of the scenario that the guard lets pass.

    Those that need columns which the recipe's settings lack are among them.
    """
    names, guard = eligible_rules((problem.wider or problem).spec), problem.guard
    return names if guard is None else [name for name in names if guard.admits(name)]
