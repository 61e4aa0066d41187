"""Compiled rules for `rlscheduler`, by the names of its program; formulas are in its `rules.py`.

`wfp` and `uni` are WFP3 and UNICEF as published, with signs turned; `wfp3` and `unicef` have them
put right. `saf` is not in the program.

An evaluation of a rule without exploration plays its episodes as the program does, in one compiled
call. The program also sorts the jobs of one second by the rule before it backfills them. A recorded
episode, or one with exploration, chooses by the same scores but backfills them in order of arrival.
Of 912 golden sequences two differ by that, by less than 1e-4.

Sources: Tang et al., CLUSTER 2009 (WFP3, UNICEF); Carastan-Santos & de Camargo, SC 2017 (F1 to F4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.features import ROW
from hindcast.flows.papers.rlscheduler.scenario.rules import NAMES, key, play
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.kernel import SCORE, Compiled, compiled
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, finished_episode, run_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec

_RULES: Final[Mapping[str, tuple[str, str]]] = {
    "fcfs": ("the job that was submitted first", "-submit_s"),
    "sjf": ("the shortest requested time", "-requested_s"),
    "smallest": ("the fewest processors", "-cpu"),
    "f1": (
        "F1: the least log10(requested time) x processors + 870 log10(submission)",
        "-(log10(requested_s) cpu + 870 log10(submit_s))",
    ),
    "f2": (
        "F2: the least sqrt(requested time) x processors + 25600 log10(submission)",
        "-(sqrt(requested_s) cpu + 25600 log10(submit_s))",
    ),
    "f3": (
        "F3: the least requested time x processors + 6860000 log10(submission)",
        "-(requested_s cpu + 6860000 log10(submit_s))",
    ),
    "f4": (
        "F4: the least requested time x sqrt(processors) + 530000 log10(submission)",
        "-(requested_s sqrt(cpu) + 530000 log10(submit_s))",
    ),
    "wfp": (
        "WFP3 as published, with its sign turned",
        "((-1 - submit_s) / requested_s)^3 cpu",
    ),
    "uni": (
        "UNICEF as published, with its sign turned", "(-1 - submit_s) / (log2(cpu) requested_s)"
    ),
    "wfp3": (
        "the largest (wait / requested time)^3 x processors, WFP3",
        "(waited_s / requested_s)^3 cpu",
    ),
    "unicef": (
        "the largest wait / (requested time x log2(processors)), UNICEF",
        "waited_s / (max(log2(cpu), 1) requested_s)",
    ),
    "saf": ("the smallest area, requested time x processors", "-requested_s cpu"),
}  # fmt: skip


@dataclass(frozen=True)
class PublishedRule(Heuristic):
    """A rule of the published program; a Planner that plays its episodes as the program does."""

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode on an instance as the published program does.

        Where observations have the 128 published rows, the episode is played like any other: the
        rule can choose only jobs that a row shows.
        """
        ints, floats = begin_episode(spec, instance)[:2]
        if ints[m.PUBLISHED] == 1:
            rule = Behaviour(self.name, Heuristic(self.name, self.score))
            return run_episode(scenario, spec, instance, rule, np.random.default_rng(0))
        steps = play(ints, floats, NAMES.index(self.name), np.zeros(ints[m.JOBS]))
        terms = (-floats[m.SLOWDOWN], -ints[m.WAITED] / 3600.0)
        totals = np.array([0.0, 0.0, *terms]) / ints[m.JOBS]  # reward and time are set below
        totals[k.REWARD] = totals[k.TERMS + ints[m.OBJECTIVE]]
        totals[k.ELAPSED] = floats[k.TIME]
        return finished_episode(
            scenario.outcome, spec, ints, floats, totals, steps, truncated=False
        )


def _score(rule: int) -> Compiled:
    """Return the compiled score of a rule."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        for i in range(len(scores)):
            scores[i] = -np.inf
            if feasible[i]:
                submit = candidates[i, ROW.submit_s]
                scores[i] = -key(
                    rule, submit, candidates[i, ROW.requested_s], candidates[i, ROW.cpu],
                    submit + candidates[i, ROW.waited_s],
                )  # fmt: skip

    return score


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    name: PublishedRule(name, _score(NAMES.index(name)), description=chosen, formula=formula)
    for name, (chosen, formula) in _RULES.items()
}
