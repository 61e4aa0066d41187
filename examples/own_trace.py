"""A log of jobs of your own, from a CSV file to a table of policies.

    python examples/own_trace.py [OUT [JOBS.CSV]]

JOBS.CSV has the columns submit_s, run_s and cores, one row per job. Without one, a file of 240 jobs
is drawn. The jobs become a log in the Standard Workload Format, which Hindcast reads, and a recipe
makes windows of it: 20 jobs each, on a cluster whose size and time step fit the jobs.
"""

import csv
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import hindcast

RECIPE = """
id = "own-trace"
scenario = "slots"          # one cluster of identical slots; which waiting job starts next
objective = "slowdown"
seed = 1
behaviours = [
  {{ policy = "random_linear", epsilon = 0.1, episodes = 6 }},
  {{ policy = "sjf_now", epsilon = 0.2 }},
]
[config]
arrival = "trace"
slots_per_resource = {cores}
step_s = {step}
horizon = {horizon}
jobs_per_window = 20
backlog = 20
[trace]
format = "swf"
path = "{log}"
[split]
train = "0..6"
validation = "7..8"
test = "9..11"
"""


def draw(path: Path) -> None:
    """Write a CSV file of 240 jobs: many short ones, a few long ones, some with many cores."""
    rng = np.random.default_rng(0)
    submit = np.cumsum(rng.exponential(60, 240)).astype(int)
    run = np.clip(rng.lognormal(5.5, 1.2, 240), 10, 7200).astype(int)
    cores = rng.choice([1, 2, 4, 8], 240, p=[0.5, 0.2, 0.2, 0.1])
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["submit_s", "run_s", "cores"])
        rows.writerows(zip(submit.tolist(), run.tolist(), cores.tolist(), strict=True))


def main(out: Path, jobs: Path | None = None, steps: int = 1000) -> Mapping[str, float]:
    """Return the mean slowdown of every policy on the windows of the test split."""
    out.mkdir(parents=True, exist_ok=True)
    if jobs is None:
        jobs = out / "jobs.csv"
        draw(jobs)
    with jobs.open(newline="") as file:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]

    cores, step = max(10, 2 * max(row["cores"] for row in rows)), 60
    log = out.resolve() / "jobs.swf"  # 18 numbers per job; -1 where something is not known
    lines = [f"; MaxProcs: {cores}"]
    for n, row in enumerate(rows, start=1):
        fields = [n, row["submit_s"], -1, row["run_s"], row["cores"], -1, -1, row["cores"]]
        lines.append(" ".join(map(str, [*fields, -1, -1, 1, *[-1] * 7])))
    log.write_text("\n".join(lines) + "\n")

    horizon = max(15, -(-max(row["run_s"] for row in rows) // step))  # steps of the longest job
    recipe = out / "recipe.toml"
    recipe.write_text(RECIPE.format(cores=cores, step=step, horizon=horizon, log=log.as_posix()))
    dataset = hindcast.build(recipe, out / "dataset")
    print(dataset.episodes()["split", "window", "behaviour", "steps", "return"].head(3))

    agent = hindcast.train(dataset, "advantage_regression", out=out / "agent", steps=steps)
    policies: list[Path | str] = ["random", "fcfs_now", "sjf_now", "packer_now", agent]
    means = hindcast.evaluate(recipe, policies, out=out / "evaluation").means
    for name, slowdown in means.items():
        print(f"{name:<30}{slowdown:8.2f} mean slowdown")
    return means


if __name__ == "__main__":
    given = [*map(Path, sys.argv[1:])]
    main(given[0] if given else Path("out/own_trace"), given[1] if len(given) > 1 else None)
