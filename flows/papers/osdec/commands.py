"""Commands of the protocol of OSDEC, and the folders that they write.

CASE/rules                  rules on the test windows of a case
CASE/VARIANT-seedS          a variant, trained in that case
CASE/VARIANT-scores         its best checkpoints on the test windows
CASE/bound                  the bound of the utilisation in a case
base/dataset, base/prices   our offline agent, from the log of deferrable-prices-v1
base/ONLINE-seedS           our online agent
base/ours                   both on the test windows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hindcast.flows.protocols import Setting, Stage

RECIPE: Final = "deferrable-osdec-online"
BASE: Final = "base"
REALTIME: Final = "realtime"
FREE_DELAY: Final = "free delay"  # the deferrable side of Table 2: the goal is the utilisation
_NO_DELAY_COST: Final = ("--set", "config.delay_weight=0.0")
CASES: Final[Mapping[str, tuple[str, ...]]] = {  # case -> overrides
    BASE: (),
    FREE_DELAY: _NO_DELAY_COST,
    REALTIME: ("--set", 'config.setting="realtime"'),
    "core case 2": ("--set", "config.core_case=2"),
    "core case 3": ("--set", "config.core_case=3"),
    "duration case 1": ("--set", "config.duration_case=1"),
    "duration case 2": ("--set", "config.duration_case=2"),
}
RULES: Final = ("random", "fifo", "sjf", "tetris", "fifo_skip", "knapsack", "knapsack_patient")
# By whether the run is quick. The other cases share what is left of six hours.
ITERATIONS: Final = {True: 5, False: 200}
ITERATIONS_OF_OTHERS: Final = {True: 1, False: 40}
GENERATIONS: Final = {True: 2, False: 60}  # of our online agent
WINDOWS: Final = 100  # test windows of the recipe
QUICK_WINDOWS: Final = 10
QUICK_WINDOWS_OF_OTHERS: Final = 5
FIRST_WINDOW: Final = 100


@dataclass(frozen=True)
class Variant:
    """A variant of the paper's network.

    Attributes:
        folder: Beginning of the names of its folders.
        sets: Overrides below online.settings.
        iteration_s: Seconds of an iteration of a stage that runs alone.
        window_s: Seconds of a test window.
    """

    folder: str
    sets: tuple[str, ...]
    iteration_s: float
    window_s: float


_NONE: Final = 'network.auxiliary="none"'
VARIANTS: Final[Mapping[str, Variant]] = {  # in the order that the paper claims, worst first
    "REINFORCE": Variant("reinforce", (_NONE, 'algorithm="reinforce"'), 1.1, 0.36),
    "PPO": Variant("mlp", (_NONE, 'network.encoder="mlp"'), 0.7, 0.15),
    "PointerNet": Variant("pointer", (_NONE, 'network.encoder="pointer"'), 2.1, 0.25),
    "PPO+Att": Variant("attention", (_NONE,), 2.2, 0.36),
    "PPO+Att+AuxH": Variant("high", ('network.auxiliary="high"',), 2.3, 0.36),
    "PPO+Att+AuxL": Variant("low", ('network.auxiliary="low"',), 2.3, 0.36),
    "OSDEC": Variant("osdec", (), 2.3, 0.36),
}


def seeds_of(case: str, setting: Setting) -> tuple[int, ...]:
    """Return the training seeds of a case: all in the base case, the first in the others."""
    return setting.seeds if case == BASE else setting.seeds[:1]


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    made: list[Stage] = []
    for case in CASES:
        made += _rules(case, setting)
        for name in VARIANTS:
            made += _variant(case, VARIANTS[name], setting)
    return (*made, *_ours(setting))


def _windows(case: str, setting: Setting) -> int:
    if setting.quick:
        return QUICK_WINDOWS if case == BASE else QUICK_WINDOWS_OF_OTHERS
    return WINDOWS


def _evaluate(
    case: str, name: str, policies: Sequence[str], minutes: float, setting: Setting,
    *overrides: str,
) -> Stage:  # fmt: skip
    last = FIRST_WINDOW + _windows(case, setting) - 1
    tested = ("--set", f'split.test="{FIRST_WINDOW}..{last}"') if setting.quick else ()
    return Stage(
        f"score {case}: {name}",
        ("evaluate", RECIPE, *CASES[case], *overrides, *tested, "--policy", *policies,
         "--out", f"{{out}}/{case}/{name}", "--direct"),
        f"{case}/{name}/evaluation.json", minutes,
    )  # fmt: skip


def _rules(case: str, setting: Setting) -> list[Stage]:
    made = [_evaluate(case, "rules", RULES, 0.1, setting)]
    if case not in {FREE_DELAY, REALTIME}:  # there, the bound of the reward is that of utilisation
        made.append(_evaluate(case, "bound", ("knapsack",), 0.1, setting, *_NO_DELAY_COST))
    return made


def _variant(case: str, variant: Variant, setting: Setting) -> list[Stage]:
    """Return the commands that train a variant in a case, and play its test windows."""
    number = ITERATIONS if case == BASE else ITERATIONS_OF_OTHERS
    iterations = number[setting.quick]
    played = ("--set", 'split.validation="80..84"') if setting.quick else ()
    sets = [word for each in variant.sets for word in ("--set", f"online.settings.{each}")]
    seeds = seeds_of(case, setting)
    folders = [f"{case}/{variant.folder}-seed{seed}" for seed in seeds]
    trained = [
        Stage(
            f"train {case}: {variant.folder}-seed{seed}",
            ("train-online", RECIPE, *CASES[case], *played, *sets, "--seed", str(seed),
             "--iterations", str(iterations),
             "--out", f"{{out}}/{folder}", "--direct"),
            f"{folder}/best/checkpoint.json", iterations * variant.iteration_s / 60.0,
        )
        for seed, folder in zip(seeds, folders, strict=True)
    ]  # fmt: skip
    scored = _evaluate(
        case, f"{variant.folder}-scores", [f"{{out}}/{folder}/best" for folder in folders],
        len(seeds) * _windows(case, setting) * variant.window_s / 60.0, setting,
    )  # fmt: skip
    return [*trained, scored]


def _ours(setting: Setting) -> list[Stage]:
    """Return the commands that train our agents, and play the test windows of the base case."""
    generations = GENERATIONS[setting.quick]
    # The agent needs twice as many episodes of drawn prices as its surface has coefficients.
    few = ("--set", 'split.train="0..11"') if setting.quick else ()
    small = ("--set", "online.settings.sampling.windows=5") if setting.quick else ()
    made = [
        Stage(
            "record a log",
            ("build", "deferrable-prices-v1", *few, "--out", f"{{out}}/{BASE}/dataset", "--direct"),
            f"{BASE}/dataset/manifest.json", 0.5 if setting.quick else 3.0,
        ),
        Stage(
            "train price_surface",
            ("train", f"{{out}}/{BASE}/dataset", "--agent", "price_surface", "--steps", "1",
             "--out", f"{{out}}/{BASE}/prices", "--direct"),
            f"{BASE}/prices/checkpoint.json", 0.5 if setting.quick else 2.0,
        ),
    ]  # fmt: skip
    for seed in setting.seeds:
        name = f"{BASE}/price_evolution-seed{seed}"
        made.append(Stage(
            f"train price_evolution-seed{seed}",
            ("train-online", "deferrable-online", *small, "--seed", str(seed), "--iterations",
             str(generations), "--out", f"{{out}}/{name}", "--direct"),
            f"{name}/best/checkpoint.json", 0.2 if setting.quick else 2.0,
        ))  # fmt: skip
    trained = [
        f"{{out}}/{BASE}/prices/delivered",
        *(f"{{out}}/{BASE}/price_evolution-seed{seed}/delivered" for seed in setting.seeds),
    ]
    return [*made, _evaluate(BASE, "ours", trained, 0.1 if setting.quick else 0.5, setting)]
