"""Commands of the protocol of OSDEC, and the folders that they write.

CASE/rules                  rules on the test windows of a case
CASE/VARIANT-seedS          a variant, trained in that case
CASE/VARIANT-scores         its best checkpoints on the test windows
base/dataset, OFFLINE-seedS our offline agent, from the log of deferrable-base-v1
base/ONLINE-seedS           our online agent
base/ours                   both on the test windows
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flows.papers import Setting, Stage

RECIPE: Final = "deferrable-osdec-online"
BASE: Final = "base"
CASES: Final[Mapping[str, tuple[str, ...]]] = {  # case -> overrides
    BASE: (),
    "realtime": ("--set", 'config.setting="realtime"'),
    "core case 2": ("--set", "config.core_case=2"),
    "core case 3": ("--set", "config.core_case=3"),
    "duration case 1": ("--set", "config.duration_case=1"),
    "duration case 2": ("--set", "config.duration_case=2"),
}
RULES: Final = ("random", "fifo", "sjf", "tetris", "fifo_skip", "knapsack", "knapsack_patient")
ITERATIONS: Final = {True: (5, 3), False: (200, 50)}  # by quick: base case, other cases
MINUTES: Final = 1.0 / 30.0  # of an iteration of the largest variant
OTHERS_IN_QUICK: Final = ("REINFORCE", "OSDEC")
OWN: Final = {True: (150, 2), False: (3000, 60)}  # steps offline, generations online


@dataclass(frozen=True)
class Variant:
    """A variant of the paper's network.

    Attributes:
        folder: Beginning of the names of its folders.
        sets: Overrides below online.settings.
    """

    folder: str
    sets: tuple[str, ...]


_NONE: Final = 'network.auxiliary="none"'
VARIANTS: Final[Mapping[str, Variant]] = {  # in the order that the paper claims, worst first
    "REINFORCE": Variant("reinforce", (_NONE, 'algorithm="reinforce"')),
    "PPO": Variant("mlp", (_NONE, 'network.encoder="mlp"')),
    "PointerNet": Variant("pointer", (_NONE, 'network.encoder="pointer"')),
    "PPO+Att": Variant("attention", (_NONE,)),
    "PPO+Att+AuxH": Variant("high", ('network.auxiliary="high"',)),
    "PPO+Att+AuxL": Variant("low", ('network.auxiliary="low"',)),
    "OSDEC": Variant("osdec", ()),
}


def variants_of(case: str, setting: Setting) -> tuple[str, ...]:
    """Return the variants that are trained in a case."""
    return OTHERS_IN_QUICK if setting.quick and case != BASE else tuple(VARIANTS)


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    workers = ("--workers", str(setting.workers))
    tested = ("--set", 'split.test="100..119"') if setting.quick else ()
    played = ("--set", 'split.validation="80..84"') if setting.quick else ()
    made: list[Stage] = []

    def evaluate(case: str, name: str, *policies: str, recipe: str = RECIPE) -> None:
        made.append(Stage(
            f"score {case}: {name}",
            ("evaluate", recipe, *CASES[case], *tested, "--policy", *policies, *workers,
             "--out", f"{{out}}/{case}/{name}", "--direct"),
            f"{case}/{name}/evaluation.json", 0.1 if setting.quick else 0.4,
        ))  # fmt: skip

    for number, case in enumerate(CASES):
        evaluate(case, "rules", *RULES)
        seeds = setting.seeds if case == BASE else setting.seeds[:1]
        iterations = ITERATIONS[setting.quick][number > 0]
        for name in variants_of(case, setting):
            variant = VARIANTS[name]
            sets = [w for each in variant.sets for w in ("--set", f"online.settings.{each}")]
            for seed in seeds:
                folder = f"{case}/{variant.folder}-seed{seed}"
                made.append(Stage(
                    f"train {case}: {variant.folder}-seed{seed}",
                    ("train-online", RECIPE, *CASES[case], *played, *sets, "--seed", str(seed),
                     "--iterations", str(iterations), *workers, "--out", f"{{out}}/{folder}",
                     "--direct"),
                    f"{folder}/best/checkpoint.json", 0.1 + iterations * MINUTES,
                ))  # fmt: skip
            checkpoints = [f"{{out}}/{case}/{variant.folder}-seed{s}/best" for s in seeds]
            evaluate(case, f"{variant.folder}-scores", *checkpoints)
    made += _ours(setting)
    offline = [f"{{out}}/{BASE}/advantage_cloning-seed{s}" for s in setting.seeds]
    online = [f"{{out}}/{BASE}/price_evolution-seed{s}/best" for s in setting.seeds]
    evaluate(BASE, "ours", *offline, *online)
    return tuple(made)


def _ours(setting: Setting) -> list[Stage]:
    """Return the commands that train our agents."""
    steps, generations = OWN[setting.quick]
    workers = ("--workers", str(setting.workers))
    few = ("--set", 'split.train="0..9"') if setting.quick else ()
    small = ("--set", "online.settings.sampling.windows=5") if setting.quick else ()
    made = [Stage(
        "record a log",
        ("build", "deferrable-base-v1", *few, *workers, "--out", f"{{out}}/{BASE}/dataset",
         "--direct"),
        f"{BASE}/dataset/manifest.json", 0.2 if setting.quick else 1.0,
    )]  # fmt: skip
    for seed in setting.seeds:
        name = f"{BASE}/advantage_cloning-seed{seed}"
        made.append(Stage(
            f"train advantage_cloning-seed{seed}",
            ("train", f"{{out}}/{BASE}/dataset", "--agent", "advantage_cloning", "--steps",
             str(steps), "--seed", str(seed), "--out", f"{{out}}/{name}", "--direct"),
            f"{name}/checkpoint.json", 0.3 if setting.quick else 3.0,
        ))  # fmt: skip
        name = f"{BASE}/price_evolution-seed{seed}"
        made.append(Stage(
            f"train price_evolution-seed{seed}",
            ("train-online", "deferrable-online", *small, "--seed", str(seed), "--iterations",
             str(generations), *workers, "--out", f"{{out}}/{name}", "--direct"),
            f"{name}/best/checkpoint.json", 0.2 if setting.quick else 2.0,
        ))  # fmt: skip
    return made
