"""Commands of the protocol of DeepRM and its reproduction, and the files that they write.

    rateNN/reinforce-seedS        the papers' agent, trained at one of ten arrival rates
    rateNN/scores                 rules and agents on the test windows of that rate
    rate04/training               rules on the train windows, beside the training curve
    rate07/natural-seedS          the same agent by natural gradient
    rate07/dataset, offline-seedS our offline agent, from the log of slots-deeprm-v1
    rate07/online-seedS           our online agent
    image/reinforce-seedS         the papers' own network: 20 units over the image, and no rows
    image/scores                  rules and that agent
    completion, utilisation       agents of other objectives, at the papers' load
    report                        the report's own sizes, where all jobs wait from the start
    compat/rateNN                 heuristics in the published simulator's mode

The load is 1.845 x the arrival rate. The loads of 70 to 80 % of both papers are rate 0.4. Rate 0.7
is that of the recipes, for which our own agents have settings.
"""

from collections.abc import Sequence
from typing import Final

from hindcast.flows.protocols import OUT, Setting, Stage

RATES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PAPER_RATE: Final = 0.4  # an expected load of 73.8 %
RECIPE_RATE: Final = 0.7
CLAIMED_RATES: Final = (0.4, 0.5, 0.6, 0.7)
COMPAT_RATES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
OBJECTIVES: Final = ("completion", "utilisation")  # beside the slowdown

RULES: Final = (
    "random", "sjf_now", "sjf_reserve", "packer_now", "no_short_visible", "hold_5", "hold_8",
)  # fmt: skip
COMPAT_RULES: Final = ("sjf_now", "packer_now")
REPORT_JOBS: Final = 31  # of the job set that comes with the report's program

ONLINE_RECIPE: Final = "slots-deeprm-online"
NATURAL_RECIPE: Final = "slots-deeprm-natural"
OWN_ONLINE_RECIPE: Final = "slots-online"
OFFLINE_RECIPE: Final = "slots-deeprm-v1"
REPORT_RECIPE: Final = "slots-report-v1"
COMPAT_RECIPE: Final = "slots-deeprm-compat"

FEW_SEEDS: Final = 2
# Full, quick
ITERATIONS: Final = (1000, 70)  # of the papers, at the rates that claims are made on
OTHER_ITERATIONS: Final = (500, 70)  # at the other rates, and with other objectives
IMAGE_ITERATIONS: Final = (1000, 40)
REPORT_ITERATIONS: Final = (500, 40)
NATURAL_ITERATIONS: Final = (200, 40)
ONLINE_ITERATIONS: Final = (50, 3)
OFFLINE_STEPS: Final = (5000, 300)

# A quick training has fewer trajectories, larger steps, and fewer validation windows.
_QUICK: Final = (
    "--set", "online.settings.sampling.windows=5",
    "--set", "online.settings.sampling.trajectories=10",
    "--set", "online.settings.learning_rate=0.005", "--set", 'split.validation="200..209"',
)  # fmt: skip
_QUICK_ONLINE: Final = (
    "--set", "online.settings.sampling.windows=40", "--set", "online.settings.gradient_steps=100",
    "--set", 'split.validation="450..459"',
)  # fmt: skip
_QUICK_DATASET: Final = ("--set", 'split.train="0..39"')

_SEES_IMAGE: Final = ("--set", 'config.observation="image"')
_IMAGE_NETWORK: Final = (
    "--set", "online.settings.network.hidden=[]", "--set", "online.settings.network.image=20",
    "--set", "online.settings.network.places=11",
)  # fmt: skip
# The settings of slots-deeprm-online, for a recipe without [online].
_REPORT_ONLINE: Final = (
    'online={{agent="reinforce", iterations=1000, settings={{learning_rate={rate}, '
    'updates="iteration", network={{hidden=[32, 32], quadratic=false}}, '
    'sampling={{trajectories={trajectories}, windows={windows}, stay=1, baseline="time"}}}}}}'
)
# The settings of slots-deeprm-v1.
_OFFLINE: Final = (
    "--set", "share=0.2", "--set", "improvement=0.0", "--set", "discount=0.98",
    "--set", "discount_per=second", "--set", "ridge=0.01", "--set", "network.hidden=[48, 48]",
)  # fmt: skip


def few(setting: Setting) -> tuple[int, ...]:
    """Return the seeds of trainings that are not repeated for every seed."""
    return setting.seeds[: 1 if setting.quick else FEW_SEEDS]


def seeds_of(setting: Setting) -> tuple[int, ...]:
    """Return the seeds of the main trainings; a quick reproduction has fewer."""
    return setting.seeds[:FEW_SEEDS] if setting.quick else setting.seeds


def seeds_at(setting: Setting, rate: float) -> tuple[int, ...]:
    """Return the seeds of the papers' agent at an arrival rate."""
    return seeds_of(setting) if rate in {PAPER_RATE, RECIPE_RATE} else few(setting)


def iterations_at(setting: Setting, rate: float) -> int:
    """Return the iterations of the papers' agent at an arrival rate."""
    return (ITERATIONS if rate in CLAIMED_RATES else OTHER_ITERATIONS)[setting.quick]


def folder_of(rate: float) -> str:
    """Return the folder of an arrival rate."""
    return f"rate{round(10 * rate):02}"


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    found = []
    for rate in RATES:
        found += _sweep(setting, rate)
    rules = _evaluation(ONLINE_RECIPE, "rate04/training", RULES, _rate(PAPER_RATE), split="train")
    return (
        *found, rules, *_image(setting), *_objectives(setting), *_report(setting),
        *(_compat(rate) for rate in COMPAT_RATES),
    )  # fmt: skip


def _rate(rate: float) -> tuple[str, ...]:
    return ("--set", f"config.arrival_rate={rate}")


def _per_thousand(rate: float) -> float:
    """Return the minutes of 1000 iterations of 200 trajectories: the more jobs, the longer."""
    return 2.0 + 3.8 * rate


def _training(
    recipe: str, out: str, words: Sequence[str], iterations: int, seed: int, minutes: float
) -> Stage:  # fmt: skip
    """Return the training of an online agent."""
    command = (
        "train-online", recipe, *words, "--iterations", str(iterations), "--seed", str(seed),
        "--direct", "--out", f"{OUT}/{out}",
    )  # fmt: skip
    return Stage(out.replace("/", "-"), command, f"{out}/checkpoint.json", minutes)


def _evaluation(
    recipe: str, out: str, policies: Sequence[str], words: Sequence[str] = (), split: str = "test"
) -> Stage:  # fmt: skip
    """Return the evaluation of policies and checkpoints."""
    command = (
        "evaluate", recipe, *words, "--policy", *policies, "--split", split,
        "--direct", "--out", f"{OUT}/{out}",
    )  # fmt: skip
    return Stage(out.replace("/", "-"), command, f"{out}/evaluation.json", 0.1)


def _best(folder: str, seeds: Sequence[int]) -> tuple[str, ...]:
    """Return the checkpoints that were best on validation windows."""
    return tuple(f"{OUT}/{folder}-seed{seed}/best" for seed in seeds)


def _sweep(setting: Setting, rate: float) -> list[Stage]:
    """Return the papers' agent at an arrival rate, and all policies on its test windows."""
    at, iterations = folder_of(rate), iterations_at(setting, rate)
    minutes = 0.1 if setting.quick else iterations / 1000 * _per_thousand(rate)
    words = (*_rate(rate), *(_QUICK if setting.quick else ()))
    seeds = seeds_at(setting, rate)
    found = [
        _training(ONLINE_RECIPE, f"{at}/reinforce-seed{seed}", words, iterations, seed, minutes)
        for seed in seeds
    ]
    policies = (*RULES, *_best(f"{at}/reinforce", seeds))
    if rate == RECIPE_RATE:
        found += [*_natural(setting), *_online(setting), *_offline(setting)]
        policies += (
            *_best(f"{at}/natural", seeds_of(setting)), *_best(f"{at}/online", few(setting)),
            *(f"{OUT}/{at}/offline-seed{seed}" for seed in seeds_of(setting)),
        )  # fmt: skip
    return [*found, _evaluation(ONLINE_RECIPE, f"{at}/scores", policies, _rate(rate))]


def _natural(setting: Setting) -> list[Stage]:
    words = ("--set", "online.settings.sampling.trajectories=10") if setting.quick else ()
    iterations, minutes = NATURAL_ITERATIONS[setting.quick], (1.2, 0.2)[setting.quick]
    return [
        _training(NATURAL_RECIPE, f"rate07/natural-seed{seed}", words, iterations, seed, minutes)
        for seed in seeds_of(setting)
    ]


def _online(setting: Setting) -> list[Stage]:
    words = _QUICK_ONLINE if setting.quick else ()
    iterations, minutes = ONLINE_ITERATIONS[setting.quick], (8.0, 0.1)[setting.quick]
    return [
        _training(
            OWN_ONLINE_RECIPE, f"rate07/online-seed{seed}", words, iterations, seed,
            minutes,
        )
        for seed in few(setting)
    ]  # fmt: skip


def _offline(setting: Setting) -> list[Stage]:
    dataset = "rate07/dataset"
    build = (
        "build", OFFLINE_RECIPE, *(_QUICK_DATASET if setting.quick else ()),
        "--direct", "--out", f"{OUT}/{dataset}",
    )  # fmt: skip
    minutes = (0.5, 0.1)[setting.quick]
    found = [Stage("rate07-dataset", build, f"{dataset}/manifest.json", minutes)]
    for seed in seeds_of(setting):
        out = f"rate07/offline-seed{seed}"
        command = (
            "train", f"{OUT}/{dataset}", "--agent", "advantage_cloning", *_OFFLINE,
            "--steps", str(OFFLINE_STEPS[setting.quick]), "--seed", str(seed), "--direct",
            "--out", f"{OUT}/{out}",
        )  # fmt: skip
        minutes = (1.5, 0.15)[setting.quick]
        found.append(Stage(out.replace("/", "-"), command, f"{out}/checkpoint.json", minutes))
    return found


def _image(setting: Setting) -> list[Stage]:
    """Return the papers' own network at rate 0.7, with the first seed: it takes long."""
    words = (*_SEES_IMAGE, *_IMAGE_NETWORK, *(_QUICK if setting.quick else ()))
    iterations, minutes = IMAGE_ITERATIONS[setting.quick], (20.0, 0.4)[setting.quick]
    seed = setting.seeds[0]
    out = f"image/reinforce-seed{seed}"
    # The greedy choices of this network may wait for ever, so what it draws is scored too.
    greedy = _best("image/reinforce", [seed])
    policies = (*RULES, *greedy, *(f"{folder}@1" for folder in greedy))
    return [
        _training(ONLINE_RECIPE, out, words, iterations, seed, minutes),
        _evaluation(ONLINE_RECIPE, "image/scores", policies, _SEES_IMAGE),
    ]


def _objectives(setting: Setting) -> list[Stage]:
    found = []
    iterations = OTHER_ITERATIONS[setting.quick]
    minutes = 0.1 if setting.quick else iterations / 1000 * _per_thousand(PAPER_RATE)
    for objective in OBJECTIVES:
        words = ("--set", f'objective="{objective}"', *_rate(PAPER_RATE))
        found += [
            _training(
                ONLINE_RECIPE, f"{objective}/reinforce-seed{seed}",
                (*words, *(_QUICK if setting.quick else ())), iterations, seed, minutes,
            )
            for seed in few(setting)
        ]  # fmt: skip
        policies = (*RULES, *_best(f"{objective}/reinforce", few(setting)))
        found.append(_evaluation(ONLINE_RECIPE, f"{objective}/scores", policies, words))
    return found


def _report(setting: Setting) -> list[Stage]:
    """Return the papers' agent at the report's sizes, and all policies on its test windows."""
    rate, trajectories, windows = (0.005, 10, 5) if setting.quick else (0.001, 20, 10)
    online = _REPORT_ONLINE.format(rate=rate, trajectories=trajectories, windows=windows)
    jobs = ("--set", f"config.steps={REPORT_JOBS}")
    fewer = ("--set", 'split.validation="100..109"') if setting.quick else ()
    words = (*jobs, "--set", online, *fewer)
    iterations, minutes = REPORT_ITERATIONS[setting.quick], (4.0, 0.15)[setting.quick]
    found = [
        _training(REPORT_RECIPE, f"report/reinforce-seed{seed}", words, iterations, seed, minutes)
        for seed in few(setting)
    ]
    policies = (*RULES, *_best("report/reinforce", few(setting)))
    return [*found, _evaluation(REPORT_RECIPE, "report/scores", policies, jobs)]


def _compat(rate: float) -> Stage:
    out = f"compat/{folder_of(rate)}"
    return _evaluation(COMPAT_RECIPE, out, COMPAT_RULES, _rate(rate), split="all")
