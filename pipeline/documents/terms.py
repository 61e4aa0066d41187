"""Under which terms a dataset may be used, and what to cite: from its workload's provenance.

Simulated decisions about drawn workloads are the project's own and under its licence. Decisions
about a trace are under the trace's terms; records of somebody else's are theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.dataset.manifest import Manifest
from pipeline.documents.card.header import licence_of
from pipeline.scenarios import load_scenario
from pipeline.traces import FORMATS


@dataclass(frozen=True)
class Terms:
    """Terms of a dataset.

    identifier   as Hugging Face names licences: "apache-2.0", "cc-by-4.0", "other"
    licence      a URL of a known licence, or the terms in words
    url          where what went in can be had, or a URN of the recipe where nothing went in
    citation     BibTeX of the dataset, with the trace's publication in its note
    """

    identifier: str
    licence: str
    url: str
    citation: str


_URLS: Final[Mapping[str, str]] = {
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
}


def terms(manifest: Manifest) -> Terms:
    """The terms of a dataset with this manifest."""
    source = str(manifest.provenance["format"])
    identifier, words = licence_of(manifest.provenance)
    form = FORMATS.get(source)
    url = f"urn:hindcast:{manifest.recipe.id}:{manifest.digest}"
    if form is not None:
        url = next((f"https://{a}" for a in _addresses(form.source)), url)
    scenario = load_scenario(manifest.recipe.scenario)
    cited = [scenario.source, form.citation if form else "workload drawn at random"]
    citation = (
        f"@misc{{{manifest.recipe.id}, title = {{{manifest.recipe.id}: decisions of the scenario "
        f"{manifest.spec.scenario}}}, howpublished = {{Hindcast dataset, recipe digest "
        f"{manifest.digest}}}, note = {{{'; '.join(filter(None, cited))}}}}}"
    )
    return Terms(identifier, _URLS.get(identifier, words), url, citation)


def _addresses(text: str) -> list[str]:
    """Words that are addresses of pages."""
    words = (word.strip(",;()") for word in text.split())
    return [word for word in words if "." in word and "/" in word]
