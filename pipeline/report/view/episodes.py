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

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.pipeline.dataset.episodes import Trajectory
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.inspection.statistics import Statistics, feature_statistics, to_json
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.view.coding import Column, coded, single, text_of
from hindcast.pipeline.report.view.inlining import inlined
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.picture import resolved
from hindcast.pipeline.simulation.spec import Feature
from hindcast.pipeline.storage.files import make_folder, write_text

_HERE: Final = Path(__file__).parent
_NUMBERS: Final = 1_000_000  # features on a page with the first episode of each behaviour
_SMALL: Final = 250_000  # features on a page with others
_SEARCHED: Final = 200  # episodes among which those of the page are chosen


def write_episodes(
    dataset: DatasetFolder, episodes: Iterable[Trajectory], out: Path, cautions: Sequence[str] = ()
) -> int:
    """Write the page of some episodes: the first one of each behaviour, and more where room is.

    Args:
        dataset: The dataset.
        episodes: Its episodes in order; the first 200 are looked at.
        out: File of the page.
        cautions: Sentences about the dataset that limit what may be concluded.

    Returns:
        Number of episodes on the page.
    """
    chosen = list(_chosen(islice(episodes, _SEARCHED)))
    spec, statistics = dataset.spec, feature_statistics(dataset)
    facts: dict[str, Any] = {
        "context": [_about(feature) for feature in spec.context],
        "candidate": [_about(feature) for feature in spec.candidates],
        "picture": _picture(dataset),
        "statistics": to_json(statistics),
        "folder": shlex.quote(str(dataset.folder)),
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
        **inlined(("decode.js", "pictures.js", "episodes.js")),
        picture=facts["picture"],
        takes=any("taken" in panel["of"] for panel in facts["picture"]),
        looked_at=_looked_at(statistics),
        features=len(statistics.features),
        heading=name,
        facts=[
            f"scenario {dataset.recipe.scenario}",
            f"{count_of(len(chosen), 'episode')} of {total:,}",
            count_of(decisions, "decision"),
        ],
        sections={"episodes": "Episodes", "statistics": "Statistics", "notes": "What is shown"},
        cautions=list(cautions),
    )
    make_folder(out.parent)
    write_text(out, page)
    return len(chosen)


def _chosen(episodes: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield the first episode of each behaviour, and others while the page is small."""
    numbers = 0
    seen: set[str] = set()
    for one in episodes:
        size = one.context.size + one.candidates.size
        is_first = one.about["behaviour"] not in seen
        if seen and numbers + size > (_NUMBERS if is_first else _SMALL):
            continue
        numbers += size
        seen.add(one.about["behaviour"])
        yield one


def _looked_at(of: Statistics) -> str:
    """Return the decisions and candidates of the statistics, in words."""
    which = "all" if of.every == 1 else f"1 in {of.every} of the"
    chosen = "." if not of.candidates else (
        f", of which {of.feasible:.1%} could be chosen. Candidates that could not are counted too."
    )  # fmt: skip
    return (
        f"Over {which} {count_of(of.total, 'decision')} of the dataset"
        f"{'' if of.every == 1 else f' ({of.decisions:,} of them)'}, with "
        f"{count_of(of.candidates, 'candidate')}{chosen}"
    )


def _picture(dataset: DatasetFolder) -> list[dict[str, Any]]:
    """Return the panels of the scenario's picture, none where it has no picture."""
    picture = load_scenario(dataset.recipe.scenario).picture
    return [resolved(panel, dataset.spec) for panel in picture(dataset.spec)] if picture else []


def _about(feature: Feature) -> list[Any]:
    high = feature.high if math.isfinite(feature.high) else None
    return [feature.name, feature.unit, feature.description, high]


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
