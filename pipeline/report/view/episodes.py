"""Page of episodes of a dataset: one HTML file in which one goes from decision to decision.

Columns of the data, for episodes one after the other; T decisions, V candidates in all:

    episode     number of the episode on the page  # (T,)
    count       candidates of the decision         # (T,)
    context     features of the moment             # (T * C,)
    candidates  features of the candidates         # (V * F,)
    feasible    1 if it may be chosen              # (V,)
    chances     its probability under the behaviour  # (V,)
    time, choice, propensity, reward, togo         # (T,) each; `togo` is the sum of the rewards
                                                   from this one on, without discount
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.pipeline.dataset.episodes import Trajectory
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.view.coding import Column, coded, single, text_of
from hindcast.pipeline.report.view.inlining import inlined
from hindcast.pipeline.simulation.spec import Feature
from hindcast.pipeline.storage.files import make_folder, write_text

_HERE: Final = Path(__file__).parent
_NUMBERS: Final = 1_000_000  # features on a page, about
_SEARCHED: Final = 200  # episodes among which those of the page are chosen


def write_episodes(
    dataset: DatasetFolder, episodes: Iterable[Trajectory], out: Path, cautions: Sequence[str] = ()
) -> int:
    """Write the page of the first episode of each behaviour, as far as there is room.

    Args:
        dataset: The dataset.
        episodes: Its episodes in order; the first 200 are looked at.
        out: File of the page.
        cautions: Sentences about the dataset that limit what may be concluded.

    Returns:
        Number of episodes on the page.
    """
    chosen = list(_chosen(islice(episodes, _SEARCHED)))
    spec = dataset.spec
    facts: dict[str, Any] = {
        "context": [_about(feature) for feature in spec.context],
        "candidate": [_about(feature) for feature in spec.candidates],
        "episodes": [
            {key: of.about[key] for key in ("episode", "split", "behaviour", "window", "return")}
            for of in chosen
        ],
    }
    name, total = dataset.recipe.id, dataset.episodes().height
    decisions = sum(len(of) for of in chosen)
    page = render(
        _HERE / "episodes.html.jinja",
        data=text_of(facts, _columns(chosen)),
        **inlined(("decode.js", "episodes.js")),
        heading=name,
        facts=[
            f"scenario {dataset.recipe.scenario}",
            f"{count_of(len(chosen), 'episode')} of {total:,}",
            count_of(decisions, "decision"),
        ],
        sections={"episodes": "Episodes", "notes": "What is shown"},
        cautions=list(cautions),
    )
    make_folder(out.parent)
    write_text(out, page)
    return len(chosen)


def _chosen(episodes: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield the first episode of each behaviour until there are about enough numbers."""
    numbers = 0
    seen: set[str] = set()
    for one in episodes:
        behaviour = one.about["behaviour"]
        if behaviour in seen:
            continue
        numbers += one.context.size + one.candidates.size
        if seen and numbers > _NUMBERS:
            return
        seen.add(behaviour)
        yield one


def _about(feature: Feature) -> list[str]:
    return [feature.name, feature.unit, feature.description]


def _columns(chosen: Sequence[Trajectory]) -> dict[str, Column]:
    """Return the columns; the last observation of an episode has no decision and is left out."""
    lengths = [len(of) for of in chosen]
    ends = [int(of.offsets[len(of)]) for of in chosen]

    def together(arrays: Iterable[Any]) -> Any:
        return np.concatenate([np.asarray(array).ravel() for array in arrays])

    pairs = list(zip(chosen, lengths, ends, strict=True))
    exact = {
        "time": together(of.time_s[:n] for of, n, _ in pairs),
        "reward": together(of.reward for of in chosen),
        "togo": together(np.cumsum(of.reward[::-1])[::-1] for of in chosen),
    }
    return {
        "episode": coded(np.repeat(np.arange(len(chosen)), lengths), "previous"),
        "count": coded(together(np.diff(of.offsets[: n + 1]) for of, n, _ in pairs)),
        "choice": coded(together(of.choice for of in chosen)),
        "feasible": coded(together(of.feasible[:end] for of, _, end in pairs).astype(np.int64)),
        **{name: coded(values.astype(np.float64), scale=0) for name, values in exact.items()},
        "context": single(together(of.context[:n] for of, n, _ in pairs)),
        "candidates": single(together(of.candidates[:end] for of, _, end in pairs)),
        "chances": single(together(of.probabilities[:end] for of, _, end in pairs)),
        "propensity": single(together(of.propensity for of in chosen)),
    }
