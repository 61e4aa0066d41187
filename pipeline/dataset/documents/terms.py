"""Terms of use of a dataset and its citation, from the provenance of its workload.

Simulated decisions about generated workloads belong to the project and are under its licence.
Decisions about a trace are under the terms of the trace; recorded decisions belong to those who
recorded them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.pipeline.dataset.manifest import Manifest
from hindcast.pipeline.pages.markdown import quoted
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.traces import FORMATS


@dataclass(frozen=True)
class Terms:
    """Terms of a dataset.

    Attributes:
        identifier: Licence as Hugging Face names it: "apache-2.0", "cc-by-4.0", "other".
        licence: URL of a known licence, or the terms in words.
        url: Address of the trace, or a URN of the recipe if there is no trace.
        citation: BibTeX of the dataset, with the publication of the trace in its note.
    """

    identifier: str
    licence: str
    url: str
    citation: str


OWN_LICENCE: Final = "apache-2.0"  # Hindcast's, for workloads that it generates
AUTHORS: Final = "The Hindcast developers"
YEAR: Final = 2026  # of the release, as in CITATION.cff
_URLS: Final[Mapping[str, str]] = {
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
}


def terms(manifest: Manifest) -> Terms:
    """Return the terms of a dataset with this manifest."""
    source = str(manifest.provenance["format"])
    identifier, words = licence_of(manifest.provenance)
    form = FORMATS.get(source)
    url = address_of(manifest.provenance) or f"urn:hindcast:{manifest.name}:{manifest.digest}"
    scenario = load_scenario(manifest.recipe.scenario)
    cited = [scenario.source, form.citation if form else "workload drawn at random"]
    fields = {
        "author": f"{{{AUTHORS}}}",  # braces: a name that is no person's
        "title": f"{manifest.name}: decisions of the scenario {manifest.spec.scenario}",
        "year": str(YEAR),
        "howpublished": f"Hindcast dataset, recipe digest {manifest.digest}",
        "note": "; ".join(filter(None, cited)),
    }
    told = ", ".join(f"{name} = {{{_escaped(value)}}}" for name, value in fields.items())
    citation = f"@misc{{{manifest.name}, {told}}}"
    return Terms(identifier, _URLS.get(identifier, words), url, citation)


def licence_of(provenance: Mapping[str, Any]) -> tuple[str, str]:
    """Return the licence as hubs name it, and in words."""
    form = FORMATS.get(str(provenance["format"]))
    return (OWN_LICENCE, "Apache-2.0") if form is None else (form.licence, form.terms)


def address_of(provenance: Mapping[str, Any]) -> str | None:
    """Return the address of the page of a trace, or None if its source names none."""
    form = FORMATS.get(str(provenance["format"]))
    words = () if form is None else (word.strip(",;()") for word in form.source.split())
    return next((f"https://{word}" for word in words if "." in word and "/" in word), None)


def licence_lines(provenance: Mapping[str, Any]) -> list[str]:
    """Return the lines about the licence: one that hubs do not know has a name and a link."""
    identifier, _words = licence_of(provenance)
    if identifier != "other":
        return [f"license: {identifier}"]
    link = address_of(provenance) or "#licence-and-citation"  # a section of the card
    name = f"{provenance['format']}-trace-terms"
    return ["license: other", f"license_name: {name}", f"license_link: {quoted(link)}"]


def _escaped(text: str) -> str:
    """Return text with the characters escaped that BibTeX hands to TeX as commands."""
    return re.sub(r"[&%$#_]", r"\\\g<0>", text)
