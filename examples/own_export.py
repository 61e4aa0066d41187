"""An export outside Hindcast: one JSON object per decision, in one file.

    export HINDCAST_PLUGINS=examples/own_export.py
    hindcast export demo/dataset --to jsonl --out demo/decisions.jsonl

The context and the mask are left out, which `lost` says below.
"""

import json
from collections.abc import Callable
from pathlib import Path

import hindcast
from hindcast.pipeline.exports import ExportResult
from hindcast.pipeline.exports._target import new_file, result


def export(
    dataset: hindcast.Dataset, out: Path, candidates: int | None, tell: Callable[[int, int], None]
) -> ExportResult:
    """Write the file `out`; it appears when it is complete."""
    names = [feature.name for feature in dataset.spec.candidates]
    total = dataset.episodes().height
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        for done, episode in enumerate(dataset.iter_episodes(), start=1):
            for step in range(len(episode)):
                rows = episode.candidates_of(step).tolist()
                decision = {
                    "episode": episode.about["episode"],
                    "step": step,
                    "candidates": [dict(zip(names, row, strict=True)) for row in rows],
                    "choice": int(episode.choice[step]),
                    "propensity": float(episode.propensity[step]),
                    "reward": float(episode.reward[step]),
                }
                file.write(json.dumps(decision) + "\n")
            tell(done, total)
    return result(out)


hindcast.register_export(
    hindcast.Export(
        name="jsonl",
        module=__name__,
        description="one JSON object per decision",
        lost="context, masks, outcomes",
        folder=False,
    )
)
