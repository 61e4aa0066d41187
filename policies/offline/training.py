"""Training from a dataset folder to a checkpoint folder: the work of `hindcast train`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pipeline import dataset as ds
from pipeline.dataset.decisions import Decisions
from pipeline.errors import DatasetError, TraceError
from pipeline.recipes.workload_source import RECORDED
from pipeline.storage.files import make_folder, remove_partials
from pipeline.storage.locks import one_writer
from pipeline.storage.provenance import begin_training, provenance
from pipeline.storage.run_files import BEST, CURVES, step_folder
from policies.delivery import agreement, played
from policies.delivery.verdict import Gate, Verdict, deliver, judge_each
from policies.networks.checkpoint import Trained, save
from policies.networks.policy import LearnedPolicy
from policies.offline import Agent, read_config
from policies.offline import agent as find_agent
from policies.offline.fit import train_decisions
from policies.offline.sample_cache import columns_of_rules, sample
from policies.training.devices import find_device, torch_setting
from policies.training.episode_stream import Logs, log_of_dataset
from policies.training.fingerprint import finished, training_key
from policies.training.loop import Point, Progress, Select
from policies.training.resume import ResumeFile
from policies.training.run_folder import clear, write_curves
from policies.training.tensorboard import open_tensorboard

MEMORY: Final = 512 << 20  # bytes of decisions: half a million of the real packing workload


@one_writer
def train(
    dataset: Path,
    agent: str,
    *,
    steps: int,
    seed: int,
    out: Path,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    gate: Gate = "simulator",
    checkpoint_every: int | None = None,
    tensorboard: Path | None = None,
    select: tuple[str, Select] | None = None,
    progress: Progress | None = None,
    point: Point | None = None,
) -> Path:
    """Train an agent on the dataset's train split and write its checkpoint to `out`.

        out/checkpoint.json, weights.safetensors    after the last step
        out/metrics.parquet                         curves: step, metric, value
        out/provenance.json                         where it was trained: code, processor, libraries
        out/best/                                   the best checkpoint on the validation split
        out/delivered/                              the best checkpoint, or a rule it does not beat
        out/checkpoints/step-000500/ ...            every `checkpoint_every` steps, and the last
        out/training.safetensors                    state of an interrupted run; removed at the end

    An interrupted run resumes and ends in the same bytes. A finished run is left unchanged. The
    validation split, if there is one, adds points to the curves and selects the best checkpoint, by
    the agent's own criterion or by `select`. `gate` compares the best checkpoint with the best rule
    of the log, in the simulator or on the log alone (policies.delivery). `tensorboard` is a folder
    for TensorBoard's event files. `point` is called with the step and the metrics of every point of
    the curves. Raises UnknownName, RecipeError, DatasetError, StorageError and InputError.
    """
    wanted = find_agent(agent)
    config = read_config(agent, settings)  # before any slow step or write
    place = find_device(device)
    opened = ds.open(dataset)
    data = data_of(opened)
    selected_by = "" if select is None else select[0]
    key = training_key(
        agent, wanted.module, config, steps, seed, data, place.type, selected_by, gate=gate
    )
    if finished(out, key, checkpoint_every):
        return out
    make_folder(out)
    remove_partials(out)
    if not ResumeFile(out, key).waits():
        clear(out)
    begin_training(out, provenance(torch=torch_setting(place)))
    draw, close = open_tensorboard(tensorboard, f"{agent}-seed{seed}")

    def each_point(step: int, metrics: Mapping[str, float]) -> None:
        for call in filter(None, (draw, point)):
            call(step, metrics)

    decisions, validation = both_splits(opened, wanted, config, seed)
    logs = None
    if wanted.whole:
        further = columns_of_rules(opened.spec, config)
        held_out = None if validation is None else log_of_dataset(opened, "validation", further)
        logs = Logs(log_of_dataset(opened, "train", further), held_out)
    trained_on = {"dataset": {**data, "decisions": len(decisions)}, "key": key}

    def keep(trained: Trained) -> None:
        on_the_way = {**trained_on, "of_steps": steps}
        save(trained, step_folder(out, trained.steps), on_the_way)

    try:
        trained = train_decisions(
            wanted, decisions, opened.spec, config, steps=steps, seed=seed,
            validation=validation, device=device, progress=progress, point=each_point,
            checkpoint_every=checkpoint_every, keep=keep, select=select, resume=(out, key),
            logs=logs,
        )  # fmt: skip
    finally:
        close()
    write_training(out, opened, trained, trained_on, steps, gate)
    ResumeFile(out, key).remove()
    return out


def data_of(opened: ds.Dataset) -> dict[str, str]:
    """Return the digests that identify the data of a training."""
    return {
        "recipe": opened.recipe.id,
        "digest": opened.manifest.digest,
        "episodes_sha256": opened.manifest.episodes.sha256,
    }


def both_splits(
    opened: ds.Dataset, agent: Agent, config: Any, seed: int
) -> tuple[Decisions, Decisions | None]:
    """Return decisions of the train split, and of the validation split if there is one."""
    decisions = sample(opened, agent, config, seed, "train", MEMORY)
    if not (opened.episodes()["split"] == "validation").any():
        return decisions, None
    return decisions, sample(opened, agent, config, seed, "validation", MEMORY // 10)


def write_training(
    out: Path,
    opened: ds.Dataset,
    trained: Trained,
    trained_on: dict[str, Any],
    steps: int,
    gate: Gate,
) -> None:
    """Write curves, checkpoints and what is delivered; `out/checkpoint.json` comes last.

    Adds the best step to `trained_on`. Raises DatasetError if a weight is not finite.
    """
    write_curves(trained.metrics, out / CURVES)
    best, candidates = trained.best, [trained]
    if best is not None:
        trained_on["best"] = {"step": best.step, "metric": best.metric, "score": best.score}
        chosen = replace(trained, steps=best.step, weights=best.weights, metrics=(), best=None)
        save(chosen, out / BEST, {**trained_on, "of_steps": steps})
        candidates = [chosen, trained]
    judged = judge_each(candidates, gate_of(opened, trained.seed, gate))
    if judged is not None:
        deliver(*judged, out, trained_on, steps)
    save(trained, out, trained_on)


def gate_of(opened: ds.Dataset, seed: int, gate: Gate) -> Callable[[LearnedPolicy], Verdict | None]:
    """Return the function that compares an agent of this log with the best of the log's rules.

    The gate "simulator" becomes "log" if the workload cannot be played.
    """
    if gate == "simulator" and opened.recipe.trace.format != RECORDED:
        try:
            windows = played.windows_of(opened.recipe, seed)
        except (TraceError, DatasetError):
            pass
        else:
            names = sorted(set(agreement.logged_rules(opened).values()))
            return played.judge_of(windows, names)
    return partial(agreement.judge, opened, seed=seed)
