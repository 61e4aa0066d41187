"""Commands of the protocol of DeepJS."""

from typing import Final

from hindcast.flows.protocols import Setting, Stage

RECIPE: Final = "binpack-deepjs"
AGENT: Final = "reinforce"
RULES: Final = (
    "random", "first_fit", "tetris_reference", "tetris", "longest_first", "longest_spread",
)  # fmt: skip
SLID: Final = ("first_fit", "tetris_reference", "longest_first")
STAY: Final = 10  # iterations on a chunk


def stages(setting: Setting) -> tuple[Stage, ...]:
    """Return the commands of the protocol."""
    chunks, tested, slid = (20, "200..219", 19) if setting.quick else (200, "200..519", 99)
    steps, data = (200, "0..9") if setting.quick else (3000, "0..179")
    generations = 10 if setting.quick else 150
    iterations = ("--iterations", str(chunks * STAY))
    share = chunks / 200
    made = [
        Stage(
            f"train {AGENT}-seed{seed}",
            ("train-online", RECIPE, "--seed", str(seed), *iterations,
             *(("--checkpoint-every", str(STAY)) if seed == setting.seeds[0] else ()),
             "--out", f"{{out}}/agents/{AGENT}-seed{seed}", "--direct"),
            f"agents/{AGENT}-seed{seed}/checkpoint.json", 12 * share,
        )
        for seed in setting.seeds
    ]  # fmt: skip
    first = f"{{out}}/agents/{AGENT}-seed{setting.seeds[0]}"
    made.append(Stage(
        "train on ten machines",
        ("train-online", RECIPE, "--set", "config.machines=10", "--seed", str(setting.seeds[0]),
         *iterations, "--out", "{out}/ten", "--direct"),
        "ten/checkpoint.json", 20 * share,
    ))  # fmt: skip
    made += [
        Stage(
            f"train on chunk {chunk}",
            ("train-online", RECIPE, "--set", f'split.train="{chunk}..{chunk}"', "--seed",
             str(setting.seeds[0]), "--iterations", str(STAY),
             "--out", f"{{out}}/chunk{chunk}", "--direct"),
            f"chunk{chunk}/checkpoint.json", 0.2,
        )
        for chunk in (5, 6)
    ]  # fmt: skip
    made.append(Stage(
        "slide",
        ("calibrate", "sliding", first, "--recipe", RECIPE, "--policy", *SLID, "--last", str(slid),
         "--out", "{out}/sliding.csv"),
        "sliding.csv", 6 * share,
    ))  # fmt: skip
    pairs = {"machines": (first, "{out}/ten"), "chunks": ("{out}/chunk5", "{out}/chunk6")}
    made += [
        Stage(
            f"compare {name}: {table}",
            ("calibrate", f"fitness-{table}", *pair, "--recipe", RECIPE,
             "--out", f"{{out}}/{name}-{table}.csv"),
            f"{name}-{table}.csv", 0.2,
        )
        for name, pair in pairs.items()
        for table in ("correlation", "points")
    ]  # fmt: skip
    made.append(Stage(
        "record a log",
        ("build", "binpack-alibaba2017-v1", "--set", f'split.train="{data}"',
         "--out", "{out}/dataset", "--direct"),
        "dataset/manifest.json", 0.3 if setting.quick else 4,
    ))  # fmt: skip
    ours = []
    for seed in setting.seeds:
        name = f"trajectory_preference-seed{seed}"
        made.append(Stage(
            f"train {name}",
            ("train", "{out}/dataset", "--agent", "trajectory_preference", "--steps", str(steps),
             "--seed", str(seed), "--out", f"{{out}}/agents/{name}", "--direct"),
            f"agents/{name}/checkpoint.json", 0.5 if setting.quick else 5,
        ))  # fmt: skip
        ours.append(f"{{out}}/agents/{name}")
        name = f"evolution-seed{seed}"
        made.append(Stage(
            f"train {name}",
            ("train-online", "binpack-online", "--seed", str(seed), "--iterations",
             str(generations), "--out", f"{{out}}/agents/{name}", "--direct"),
            f"agents/{name}/best/checkpoint.json", 0.6 if setting.quick else 9,
        ))  # fmt: skip
        ours.append(f"{{out}}/agents/{name}/best")
    agents = [f"{{out}}/agents/{AGENT}-seed{seed}" for seed in setting.seeds]
    made.append(Stage(
        "evaluate",
        ("evaluate", RECIPE, "--set", f'split.test="{tested}"', "--policy", *RULES, *agents, *ours,
         "--out", "{out}/evaluation", "--direct"),
        "evaluation/evaluation.json", 0.5 if setting.quick else 4,
    ))  # fmt: skip
    return tuple(made)
