"""Values of a report about the datasets that agents were trained on."""

from pathlib import Path
from typing import Any

from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.inspection.columns import size
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.workloads.caveats import of_provenance
from hindcast.pipeline.workloads.schema import read_provenance


def dataset_part(folder: Path) -> dict[str, Any]:
    """Return the values of the section about a dataset, see report.html.jinja.

    Raises DatasetError for a manifest that is missing or damaged.
    """
    manifest = read_manifest(folder)
    behaviours = (_behaviour(b) for recipe in manifest.recipes for b in recipe.behaviours)
    caveats = manifest.caveats or of_provenance(read_provenance(manifest.provenance))
    return {
        "manifest": manifest,
        "caveats": list(dict.fromkeys(caveat.text for caveat in caveats)),
        "size": size(sum(part.bytes for part in manifest.parts)),
        "behaviours": list(dict.fromkeys(behaviours)),
    }


def _behaviour(behaviour: BehaviourRecipe) -> str:
    settings = {"epsilon": behaviour.epsilon, "temperature": behaviour.temperature}
    details = ", ".join(f"{name} {value:g}" for name, value in settings.items() if value)
    return f"{behaviour.policy} ({details})" if details else behaviour.policy
