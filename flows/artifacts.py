"""Artifacts of flow runs: what the page of a run on a Prefect server shows beside its log.

    report, report-finding, report-scores    of a report: a link, the finding, the headline table
    means                                    of an evaluation: the mean of every policy
    page                                     of any other command with an HTML page: a link
    result                                   of any other command: the lines that it prints
    progress                                 of a step that lasts for more than half a minute

The keys of a command begin with its name, such as `nightly-report`. Numbers and sentences are read
from the files that the command wrote. An artifact that cannot be made costs a line in the log and
nothing else. Nothing is published outside a flow run.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hindcast.flows.commands import module_of, name_of
from hindcast.flows.links import link_of
from hindcast.flows.progress import Display, Tell
from hindcast.pipeline.pages.numbers import (
    decimals_for,
    name_with_unit,
    write_interval,
    write_number,
)
from hindcast.pipeline.storage.files import read_parquet
from hindcast.pipeline.storage.location import location

if TYPE_CHECKING:
    import polars as pl

_EVERY_S: Final = 30.0  # a step that is shorter has no artifact of its progress
_LARGEST: Final = 20_000  # characters of a text


def publish(request: Any, result: Mapping[str, Any]) -> None:
    """Make the artifacts of the running flow from the result of its command."""
    name = name_of(request).replace("_", "-")
    with _tolerating("the artifacts of this run"):
        if "report" in result:
            _publish_report(name, location(result["report"]))
        elif "means" in result:
            rows = [{"policy": policy, "mean": mean} for policy, mean in result["means"].items()]
            _table(f"{name}-means", rows, f"Means on {result['split']}: {result['evaluation']}")
        else:
            if str(result.get("page", "")).endswith(".html"):
                _link(f"{name}-page", location(result["page"]), "Page")
            lines = module_of(request).show(result).lines
            _text(f"{name}-result", "```text\n" + "\n".join(lines) + "\n```", "Result")


def _link(key: str, page: Path, description: str) -> None:
    """Publish the address of a page; that of a file which is not there would lead nowhere."""
    from prefect.artifacts import create_link_artifact

    create: Any = create_link_artifact
    if page.is_file():
        create(link_of(page), key=key, link_text=str(page), description=description)


def _publish_report(name: str, page: Path) -> None:
    _link(f"{name}-report", page, "Report")
    summary = (page.parent / "summary.md").read_text(encoding="utf-8")
    _text(f"{name}-report-finding", finding_of(summary), "Finding")
    for number, (title, rows) in enumerate(
        scores_of(read_parquet(page.parent / "summary.parquet"))
    ):
        _table(f"{name}-report-scores" + (f"-{number + 1}" if number else ""), rows, title)


def finding_of(summary: str) -> str:
    """Return the beginning of a summary.md: the finding of each setting, without the tables."""
    lines, shown = [], True
    for line in summary.splitlines()[1:]:
        shown = (shown or line.startswith("## ")) and not line.startswith("### ")
        lines += [line] if shown else []
    return "\n".join(lines).strip()


def scores_of(table: "pl.DataFrame") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the headline metric of each setting of a summary.parquet: its title and its rows.

    Policies come best first, with their difference from the strongest policy that is no agent.
    """
    for _, setting in table.group_by("scenario", maintain_order=True):
        own = [row for row in setting.to_dicts() if row["metric"] == setting["metric"][0]]
        known = {row["reference"] for row in own}
        baseline = next(
            (r["policy"] for r in own if r["kind"] != "learned" and r["policy"] in known), None
        )
        rows = [row for row in own if row["reference"] == baseline] if baseline else own
        decimals = decimals_for(row["mean"] for row in rows)
        metric = name_with_unit(own[0]["metric"], own[0]["unit"])
        yield (
            f"{own[0]['recipe']}: {metric}, {own[0]['windows']} windows",
            [_score(row, baseline, decimals) for row in rows],
        )


def _score(row: Mapping[str, Any], baseline: str | None, decimals: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "policy": row["policy"],
        "kind": row["kind"],
        "seeds": row["seeds"],
        "mean": write_number(row["mean"], decimals),
        "interval": write_interval(row["low"], row["high"], decimals),
    }
    if baseline is not None:
        difference = row["paired_difference"]
        shown[f"minus {baseline}"] = (
            "" if difference is None
            else f"{write_number(difference, decimals, signed=True)} "
            f"({write_interval(row['paired_low'], row['paired_high'], decimals)})"
        )  # fmt: skip
    return shown


def _text(key: str, markdown: str, description: str) -> None:
    from prefect.artifacts import create_markdown_artifact

    create: Any = create_markdown_artifact
    create(markdown[:_LARGEST], key=key, description=description)


def _table(key: str, rows: list[dict[str, Any]], description: str) -> None:
    from prefect.artifacts import create_table_artifact

    create: Any = create_table_artifact
    create(rows, key=key, description=description)


@contextmanager
def _tolerating(what: str) -> Iterator[None]:
    """Write an error to the log of the run as a warning, and continue."""
    from prefect.logging import get_run_logger

    try:
        yield
    except Exception as error:  # noqa: BLE001  of Prefect, its server, or a damaged file
        said = " ".join(str(error).split())[:200]
        get_run_logger().warning("%s could not be made: %s", what, said or type(error).__name__)


class ProgressArtifacts:
    """Display that passes everything on, and keeps an artifact of every long step."""

    def __init__(
        self,
        display: Display,
        key: str,
        interval_s: float = _EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._display = display
        self._key = f"{key.replace('_', '-')}-progress"
        self._interval_s = interval_s
        self._clock = clock

    def note(self, text: str) -> None:
        """Show the note."""
        self._display.note(text)

    @contextmanager
    def progress(self, title: str) -> Iterator[Tell]:
        """Show the counts of a step, and publish its share when one is due."""
        last, artifact = self._clock(), None

        def publish(share: float, what: str) -> None:
            nonlocal artifact
            from prefect.artifacts import create_progress_artifact, update_progress_artifact

            create: Any = create_progress_artifact
            update: Any = update_progress_artifact
            about = ": ".join(filter(None, (title, what)))
            with _tolerating("the progress of this step"):
                if artifact is None:
                    artifact = create(share, key=self._key, description=about)
                else:
                    update(artifact, share, description=about)

        with self._display.progress(title) as show:

            def tell(done: int, total: int, what: str = "") -> None:
                nonlocal last
                show(done, total, what)
                now = self._clock()
                if total > 0 and now - last >= self._interval_s:
                    last = now
                    publish(100.0 * min(done / total, 1.0), what or f"{done:,} of {total:,}")

            yield tell
        if artifact is not None:
            publish(100.0, "finished")
