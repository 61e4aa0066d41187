"""Commands of the protocol of RLScheduler, and the files that they write.

    tables.csv                    `hindcast calibrate rlscheduler`: rules beside published numbers
    LOG/ppo-seedS                 the agent as in the paper: a kernel network over 128 rows, PPO
    LOG/evolution-seedS           our online agent on the same windows
    LOG/dataset, preference-seedS our offline agent, from random linear scores on the same log
    LOG/sequences[-backfill]      rules and the agent on the ten sequences of the tables
    LOG/unseen[-backfill]         rules and all agents on windows after 70 % of the log

Agents are trained without backfilling and play both settings, as the published ones do. In training
they see the 128 rows of the program. All policies are scored with all waiting jobs in sight: a rule
that may choose among 128 jobs alone is another rule (`fcfs` on Lublin-1: 3,907 in place of 7,274).
"""

from typing import Final

from hindcast.flows.papers.rlscheduler.calibration import LEFT_OUT
from hindcast.flows.papers.rlscheduler.published_tables import POLICIES
from hindcast.flows.protocols import OUT, Setting, Stage

TABLE_RULES: Final = tuple(name for name in POLICIES if name != "paper_agent")
RULES: Final = (*TABLE_RULES, *LEFT_OUT)

# Trace -> (folder, file of the log)
LOGS: Final = {
    "lublin_256": ("lublin1", "swf/lublin_256.swf"),
    "SDSC-SP2": ("sdsc-sp2", "swf/SDSC-SP2-1998-4.2-cln.swf.gz"),
    "HPC2N": ("hpc2n", "swf/HPC2N-2002-2.2-cln.swf.gz"),
    "lublin_256_new2": ("lublin2", "swf/lublin_256_new2.swf"),
}

QUICK_SEEDS: Final = 2
PPO_MINUTES: Final = {"lublin1": 4.5, "sdsc-sp2": 4.0, "hpc2n": 2.2, "lublin2": 4.5}
# Full, quick
PPO_ITERATIONS: Final = (200, 8)
EVOLUTION_ITERATIONS: Final = (20, 8)
OFFLINE_WINDOWS: Final = (80, 24)
OFFLINE_STEPS: Final = (600, 150)
_QUICK_SAMPLING: Final = (
    "--set", "online.settings.sampling.trajectories=3",
    "--set", "online.settings.sampling.windows=8",
)  # fmt: skip
# CMA-ES over squares and products of the columns, on logarithms of slowdowns
_EVOLUTION: Final = (
    'online.settings={step=0.5, order="drawn", fitness="log", '
    "network={hidden=[], quadratic=true, logs=false}, "
    'sampling={trajectories=12, windows=16, stay=1, baseline="none"}}'
)
_BEHAVIOURS: Final = 'behaviours=[{policy="random_linear", temperature=0.3, episodes=6}]'
_ALL_ROWS: Final = ("--set", 'config.observation="all"')
_BACKFILL: Final = ("--set", "config.backfill=true")


def recipe_of(trace: str) -> str:
    """Return the recipe of the agents on a log."""
    return f"rlscheduler-{LOGS[trace][0]}-online"


def seeds_of(setting: Setting) -> tuple[int, ...]:
    """Return the training seeds; a quick reproduction has fewer."""
    return setting.seeds[:QUICK_SEEDS] if setting.quick else setting.seeds


def evaluation_of(trace: str, kind: str, *, backfill: bool) -> str:
    """Return the folder of an evaluation, of kind "sequences" or "unseen"."""
    return f"{LOGS[trace][0]}/{kind}{'-backfill' if backfill else ''}"


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    found = [_calibration()]
    for trace in LOGS:
        found += _trainings(trace, setting)
        found += _evaluations(trace, setting)
    return tuple(found)


def _calibration() -> Stage:
    words = ("calibrate", "rlscheduler", "--out", f"{OUT}/tables.csv")
    return Stage("tables", words, "tables.csv", 0.3)


def _trainings(trace: str, setting: Setting) -> list[Stage]:
    """Return the trainings of all agents on a log."""
    folder, recipe, quick = LOGS[trace][0], recipe_of(trace), setting.quick
    found = []
    for seed in seeds_of(setting):
        for agent, iterations, settings, minutes in (
            (
                "ppo",
                PPO_ITERATIONS[quick],
                _QUICK_SAMPLING if quick else (),
                0.2 if quick else PPO_MINUTES[folder],
            ),
            ("evolution", EVOLUTION_ITERATIONS[quick], ("--set", _EVOLUTION), (0.25, 0.1)[quick]),
        ):
            out = f"{folder}/{agent}-seed{seed}"
            words = (
                "train-online", recipe, "--agent", agent, *settings,
                "--iterations", str(iterations), "--seed", str(seed), "--direct",
                "--out", f"{OUT}/{out}",
            )  # fmt: skip
            found.append(Stage(out.replace("/", "-"), words, f"{out}/checkpoint.json", minutes))
    windows = f'split={{train="0..{OFFLINE_WINDOWS[quick] - 1}", validation="240..255"}}'
    words = (
        "build", recipe, "--set", _BEHAVIOURS, *_ALL_ROWS, "--set", windows, "--direct",
        "--out", f"{OUT}/{folder}/dataset",
    )  # fmt: skip
    made = f"{folder}/dataset/manifest.json"
    found.append(Stage(f"{folder}-dataset", words, made, (0.25, 0.1)[quick]))
    for seed in seeds_of(setting):
        out = f"{folder}/preference-seed{seed}"
        words = (
            "train", f"{OUT}/{folder}/dataset", "--agent", "trajectory_preference",
            "--set", "logarithm=true", "--set", "network.logs=false",
            "--steps", str(OFFLINE_STEPS[quick]), "--seed", str(seed), "--direct",
            "--out", f"{OUT}/{out}",
        )  # fmt: skip
        minutes = (0.4, 0.15)[quick]
        found.append(Stage(out.replace("/", "-"), words, f"{out}/checkpoint.json", minutes))
    return found


def _evaluations(trace: str, setting: Setting) -> list[Stage]:
    """Return the evaluations on a log, without and with backfilling."""
    folder, path = LOGS[trace]
    of = {
        agent: tuple(f"{OUT}/{folder}/{agent}-seed{seed}{best}" for seed in seeds_of(setting))
        for agent, best in (("ppo", "/best"), ("evolution", "/best"), ("preference", ""))
    }
    table = (
        "evaluate", "queue-rlscheduler", "--set", f'config.trace_name="{trace}"',
        "--set", f'trace.path="{path}"',
    )  # fmt: skip
    unseen = ("evaluate", recipe_of(trace), *_ALL_ROWS)
    agents = (*of["ppo"], *of["evolution"], *of["preference"])
    found = []
    for backfill in (False, True):
        for kind, start, policies in (
            ("sequences", table, (*RULES, *of["ppo"])),
            ("unseen", unseen, ("random", *RULES, *agents)),
        ):
            out = evaluation_of(trace, kind, backfill=backfill)
            words = (
                *start, *(_BACKFILL if backfill else ()), "--policy", *policies,
                "--direct", "--out", f"{OUT}/{out}",
            )  # fmt: skip
            name = out.replace("/", "-")
            found.append(Stage(name, words, f"{out}/evaluation.json", 0.1))
    return found
