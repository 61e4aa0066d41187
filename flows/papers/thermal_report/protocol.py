"""The 2018 data-centre report: its DQN learns from a log, and is played in the simulator.

Two settings are used side by side. `sizes` has the report's sizes and objective, and a history of
random choices, as the report's generator makes it. `tight` has longer jobs with deadlines that
bind, and a log of eleven behaviours. On both, the network is trained with checkpoints; Figures 7
and 8 are the servers that these choose at logged decisions. Evaluations and off-policy estimates
are what the report could not make. Module `results` makes the tables and figures.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import Results
from hindcast.flows.papers.thermal_report.results import read
from hindcast.flows.papers.thermal_report.texts import AGENT, OFFLINE, ONLINE, RULES, SETTINGS
from hindcast.flows.protocols import Setting, Stage

TITLE: Final = "The 2018 data-centre report"
SOURCE: Final = 'L. Dong, "Solution on Data Center Job Scheduling Problem", 2018'
RECIPES: Final = {"sizes": "thermal-paper-v1", "tight": "thermal-default-v1"}
PLAYED: Final = "thermal-online"  # the recipe of the agent that plays; same windows as `tight`
HISTORY: Final = 'behaviours=[{policy="random",episodes=4}]'  # of `sizes`: the report's generator


@dataclass(frozen=True)
class _Size:
    """Size of a protocol.

    Attributes:
        sizes: Windows of the log in the report's sizes.
        tight: Windows of the log with tight deadlines.
        steps: Gradient steps of offline agents.
        every: Steps between the points of Figures 7 and 8.
        rounds: Rounds of the offline agent of ours.
        iterations: Batches of the agent that plays.
        limit: Logged decisions that are weighted in off-policy estimates.
        fitted: Gradient steps of fitted Q evaluation.
    """

    sizes: str
    tight: str
    steps: int
    every: int
    rounds: int
    iterations: int
    limit: int
    fitted: int


_FULL: Final = _Size(
    'split={train="0..9",validation="10..11",test="12..21"}',
    'split={train="0..39",validation="40..59",test="60..89"}',
    steps=2000, every=100, rounds=4, iterations=60, limit=200_000, fitted=1500,
)  # fmt: skip
_QUICK: Final = _Size(
    'split={train="0..3",validation="10..11",test="12..21"}',
    'split={train="0..7",validation="40..43",test="60..89"}',
    steps=400, every=50, rounds=2, iterations=10, limit=64_000, fitted=100,
)  # fmt: skip


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    size = _QUICK if setting.quick else _FULL
    made = [Stage(
        "record of Figure 4", ("calibrate", "thermal", "--out", "{out}/record.csv"), "record.csv",
        0.1,
    )]  # fmt: skip
    for name in SETTINGS:
        made += _figures_7_and_8(name, size, setting)
    made += _ours(size, setting)
    made += [_evaluation(name, size, setting) for name in SETTINGS]
    return (*made, _estimates(size, setting))


def _figures_7_and_8(name: str, size: _Size, setting: Setting) -> list[Stage]:
    """Return the commands that make a log, train the report's agent and look at its choices."""
    history = ("--set", HISTORY) if name == "sizes" else ()
    made = [Stage(
        f"build {name}",
        ("build", RECIPES[name], "--set", getattr(size, name), *history,
         "--out", f"{{out}}/{name}/log", "--direct"),
        f"{name}/log/manifest.json", 0.1 if setting.quick or history else 0.3,
    )]  # fmt: skip
    for seed in setting.seeds:
        agent = f"{name}/{AGENT}-seed{seed}"
        made.append(Stage(
            f"train {agent}",
            ("train", f"{{out}}/{name}/log", "--agent", AGENT, "--steps", str(size.steps),
             "--checkpoint-every", str(size.every), "--seed", str(seed),
             "--out", f"{{out}}/{agent}", "--direct"),
            f"{agent}/checkpoint.json", 0.2 if setting.quick else 0.3,
        ))  # fmt: skip
        made.append(Stage(
            f"choices of {agent}",
            ("calibrate", "thermal-choices", f"{{out}}/{name}/log", f"{{out}}/{agent}",
             "--split", "train", "--out", f"{{out}}/{name}/choices-seed{seed}.csv"),
            f"{name}/choices-seed{seed}.csv", 0.1,
        ))  # fmt: skip
    return made


def _ours(size: _Size, setting: Setting) -> list[Stage]:
    """Return the trainings of the best agents of this project."""
    made = []
    for seed in setting.seeds:
        agent = f"tight/{OFFLINE}-seed{seed}"
        made.append(Stage(
            f"train {agent}",
            ("train", "{out}/tight/log", "--agent", OFFLINE, "--steps", str(size.steps),
             "--set", f"rounds={size.rounds}", "--seed", str(seed),
             "--out", f"{{out}}/{agent}", "--direct"),
            f"{agent}/checkpoint.json", 0.4 if setting.quick else 3.5,
        ))  # fmt: skip
        agent = f"tight/{ONLINE}-seed{seed}"
        made.append(Stage(
            f"train {agent}",
            ("train-online", PLAYED, "--iterations", str(size.iterations), "--seed", str(seed),
             "--out", f"{{out}}/{agent}", "--direct"),
            f"{agent}/best/checkpoint.json", 0.4 if setting.quick else 1.4,
        ))  # fmt: skip
    return made


def _evaluation(name: str, size: _Size, setting: Setting) -> Stage:
    """Return the command that plays all policies on the test windows of a setting."""
    agents = [
        f"{{out}}/{name}/{AGENT}-seed{seed}{best}" for best in ("", "/best")
        for seed in setting.seeds
    ]  # fmt: skip
    if name == "tight":
        agents += [f"{{out}}/tight/{OFFLINE}-seed{seed}" for seed in setting.seeds]
        agents += [f"{{out}}/tight/{ONLINE}-seed{seed}/best" for seed in setting.seeds]
    return Stage(
        f"evaluate {name}",
        ("evaluate", RECIPES[name], "--set", getattr(size, name), "--policy", *RULES, "random",
         "behaviour", *agents, "--out", f"{{out}}/{name}/evaluation", "--direct"),
        f"{name}/evaluation/evaluation.json", 0.2 if setting.quick else 0.4,
    )  # fmt: skip


def _estimates(size: _Size, setting: Setting) -> Stage:
    """Return the off-policy estimates of all rules and of one agent of each kind."""
    seed = setting.seeds[0]
    agents = [
        f"{{out}}/tight/{AGENT}-seed{seed}", f"{{out}}/tight/{OFFLINE}-seed{seed}",
        f"{{out}}/tight/{ONLINE}-seed{seed}/best",
    ]  # fmt: skip
    return Stage(
        "off-policy estimates",
        ("ope", "{out}/tight/log", "--policy", *RULES, "random", *agents, "--limit",
         str(size.limit), "--fqe-steps", str(size.fitted), "--out", "{out}/ope"),
        "ope/ope.json", 0.5 if setting.quick else 3,
    )  # fmt: skip


def results(place: Path, setting: Setting) -> Results:
    """Return the tables, Figures 7 and 8, and the claims."""
    return read(place, setting)


PROTOCOL: Final = protocol_of(TITLE, SOURCE, stages, results)
