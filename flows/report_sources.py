"""What `hindcast report` finds in the folders that it is given."""

from pathlib import Path


def estimates_of(folders: list[Path]) -> tuple[tuple[Path, ...], list[Path]]:
    """Folders of `hindcast ope`, among those given or in a run, and the others.

    Where there are no others, the simulator's evaluation inside each of them is reported.
    """
    ours = [f for f in folders if (f / "ope.json").exists()]
    others = [f for f in folders if f not in ours]
    in_runs = [f / "ope" for f in others if (f / "ope" / "ope.json").exists()]
    truths = [f / "truth" for f in ours if (f / "truth" / "evaluation.json").exists()]
    return (*ours, *in_runs), others or truths


def sources_of(folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """The evaluation, checkpoints and datasets of a folder: of an evaluation, or of a whole run."""
    if (folder / "study.json").exists():
        from pipeline.studies.study import study_points

        return sources_of(study_points(folder)[-1])  # of the others it shows what the study says
    if (folder / "evaluation.json").exists() or not (folder / "run.json").exists():
        return folder, [], []
    trained = sorted(p.parent for p in folder.glob("agents/*/metrics.parquet"))
    dataset = folder / "dataset"
    return folder / "evaluation", trained, [dataset] if dataset.is_dir() else []
