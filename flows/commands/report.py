"""`hindcast report`: write one HTML page about evaluations, or print a table of them."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, caveats_of
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.run_files import CURVES, LEDGER

PAGE: Final = "report.html"
_TABLES: Final = ("between", "spread", "ranking", "pages")  # of Table


@dataclass(frozen=True)
class Request:
    """Evaluations and other folders that the page describes, and the folder for the page."""

    evaluations: tuple[p.Folder, ...] = p.hidden("folders that `hindcast evaluate` wrote")
    out: p.Folder = p.option(
        "folder for report.html and the summary files, or the path of the report.html in it",
        metavar="REPORT.HTML", required=False)  # fmt: skip
    training: tuple[p.Folder, ...] = p.hidden("folders of checkpoints, for training curves", ())
    datasets: tuple[p.Folder, ...] = p.hidden("folders of datasets to describe", ())
    estimates: tuple[p.Folder, ...] = p.hidden("folders that `hindcast ope` wrote", ())
    studies: tuple[p.Folder, ...] = p.hidden("folders that `hindcast study` wrote", ())
    metrics: tuple[p.Name, ...] = p.option(
        "outcomes in results.csv beside the headline; the report has all of them", default=(),
        metavar="OUTCOME")  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Folders or files, and the table that is made from them instead of the page."""

    folders: tuple[p.Folder, ...] = p.argument(
        "folders of evaluations, or of runs; their datasets and training curves are shown too"
    )
    between: p.Name | None = p.option(
        "print the differences of this policy (named without its seed) between the evaluations, on "
        "the same windows", default=None, metavar="POLICY")  # fmt: skip
    spread: tuple[p.Name, ...] = p.option(
        "print the differences of every policy from these, window by window: counts and quartiles",
        default=(), metavar="POLICY")  # fmt: skip
    ranking: p.Folder | None = p.option(
        "write a table, and its page, of how well estimators rank policies in folders of `ope`",
        default=None, metavar="TABLE.CSV")  # fmt: skip
    pages: bool = p.option(
        "write a Markdown page beside each DIR, here a table that report, study or --ranking wrote",
        default=False,
    )
    metrics: tuple[p.Name, ...] = p.hidden("the metrics of Request", ())


def _read(arguments: argparse.Namespace) -> Any:
    """Return the request of a page or of a table."""
    table: Table = p.read_request(Table, arguments, metrics=getattr(arguments, "metrics", ()))
    if any(getattr(table, name) for name in _TABLES):
        if hasattr(arguments, "out"):
            raise InputError("report: --out is for the page; a table has no --out")
        arguments.direct = True  # there is nothing to record
        return table
    if not hasattr(arguments, "out"):
        raise InputError(
            "the following arguments are required: --out (see `hindcast report --help`)"
        )
    return request_of(table.folders, arguments.out, table.metrics)


def request_of(sources_given: Sequence[str], page: str, metrics: tuple[str, ...]) -> Request:
    """Return the request of a page about folders; raise InputError unless it is report.html."""
    out = location(page)
    if out.suffix == ".html" and out.name != PAGE:
        raise InputError(
            f"--out {out}: the page is always named {PAGE}, since summary files lie beside it; "
            f"try --out {out.with_suffix('') / PAGE}"
        )
    estimates, folders = _estimates([location(folder) for folder in sources_given])
    sources = [_sources(folder) for folder in folders]
    return Request(
        evaluations=_texts(evaluation for evaluation, _, _ in sources),
        out=str(out.parent if out.name == PAGE else out),
        training=_texts(folder for _, trained, _ in sources for folder in trained),
        datasets=_texts(folder for _, _, datasets in sources for folder in datasets),
        estimates=_texts(estimates),
        studies=_texts(f for f in folders if (f / "study.json").exists()),
        metrics=tuple(metrics),
    )


def _texts(places: Iterable[Path]) -> tuple[str, ...]:
    return tuple(map(str, places))


def _estimates(folders: list[Path]) -> tuple[tuple[Path, ...], list[Path]]:
    """Return the folders of `hindcast ope`, both those given and those in runs, and the others.

    If there are no others, the simulator's evaluations inside the folders take their place.
    """
    from hindcast.pipeline.storage.files import read_json

    ours = [f for f in folders if (f / "ope.json").exists()]
    for folder in ours:
        about = read_json(folder / "ope.json")
        if isinstance(about, dict) and about.get("kind") == "log":
            raise InputError(
                f"{folder}: these are answers of a log of decisions, and a report compares in a "
                "simulator; `hindcast ope` says the answers, and estimates.parquet, "
                "support.parquet and trials.parquet hold them"
            )
    others = [f for f in folders if f not in ours]
    in_runs = [f / "ope" for f in others if (f / "ope" / "ope.json").exists()]
    truths = [f / "truth" for f in ours if (f / "truth" / "evaluation.json").exists()]
    return (*ours, *in_runs), others or truths


def _sources(folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """Return the evaluation, checkpoints and datasets of a folder, such as a whole run."""
    if (folder / "study.json").exists():
        from hindcast.pipeline.evaluation.studies.study import study_points

        return _sources(study_points(folder)[-1])  # the study's table covers the other points
    if (folder / "evaluation.json").exists() or not (folder / LEDGER).exists():
        return folder, [], []
    trained = sorted(p.parent for p in folder.glob(f"agents/*/{CURVES}"))
    dataset = folder / "dataset"
    return folder / "evaluation", trained, [dataset] if dataset.is_dir() else []


def check(request: Request | Table) -> None:
    """Raise InputError if a folder is no evaluation, or options exclude each other."""
    if isinstance(request, Request):
        from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation

        for folder in request.evaluations:
            read_evaluation(location(folder))
        return
    tables = [f"--{name}" for name in _TABLES if getattr(request, name)]
    if len(tables) > 1:
        raise InputError(f"report: give one of {', '.join(tables)}")
    if len(request.metrics) > (1 if request.between else 0):
        several = "several metrics are" if request.between else "--metrics is"
        raise InputError(f"report: {several} for the page, not for {tables[0]}")
    if request.spread and len(request.folders) > 1:
        raise InputError("report: --spread is for one evaluation")


def run(request: Request | Table) -> dict[str, Any]:
    """Write the page with summary.parquet and summary.md beside it, or make a table."""
    if isinstance(request, Table):
        return _table(request)
    from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation
    from hindcast.pipeline.report.page import Beside, write_report
    from hindcast.pipeline.workloads.caveats import to_json

    beside = Beside(**{
        name: [location(folder) for folder in getattr(request, name)]
        for name in ("training", "datasets", "estimates", "studies")
    })  # fmt: skip
    evaluations = [location(folder) for folder in request.evaluations]
    findings: list[str] = []
    page = write_report(
        evaluations, location(request.out), beside, metrics=request.metrics, tell=findings.append
    )
    caveats = {c.text: c for folder in evaluations for c in read_evaluation(folder).caveats}
    return {"report": str(page), "caveats": to_json(caveats.values()), "findings": findings}


def _table(request: Table) -> dict[str, Any]:
    folders = [location(folder) for folder in request.folders]
    if request.between:
        from hindcast.pipeline.evaluation.summary.between import differences

        return rows_of(differences(folders, request.between, *request.metrics))
    if request.spread:
        from hindcast.pipeline.evaluation.summary.spread import spreads

        return rows_of(spreads(folders[0], request.spread))
    from hindcast.pipeline.storage.files import write_text

    if request.ranking:
        from hindcast.policies.ope.selection_table import selection_table

        table = location(request.ranking)
        write_text(table, selection_table(folders).write_csv())
        folders = [table]
    pages = []
    for path in folders:
        content = path.read_bytes()
        pages.append(path.with_suffix(".md"))
        write_text(pages[-1], _page_of(content)(content, path.name))
    return {"lines": [*map(str, pages)], "rows": [{"page": str(page)} for page in pages]}


def _page_of(content: bytes) -> Callable[[bytes, str], str]:
    """Return the function that makes the page of a table with these columns."""
    from hindcast.pipeline.evaluation.studies.page import study_markdown
    from hindcast.pipeline.evaluation.studies.study import COLUMNS
    from hindcast.pipeline.evaluation.summary.results import PROVENANCE_COLUMN, results_markdown
    from hindcast.policies.ope import selection_table

    head = content.split(b"\n", 1)[0].decode(errors="replace").strip().split(",")

    def has_columns(columns: Iterable[str]) -> bool:
        """Return whether these are the columns; tables of 0.1.0 have no `provenance`."""
        return head in (list(columns), [name for name in columns if name != PROVENANCE_COLUMN])

    if has_columns(selection_table.COLUMNS):
        return selection_table.selection_markdown
    return study_markdown if has_columns(COLUMNS) else results_markdown


def rows_of(table: Any) -> dict[str, Any]:
    """Return a polars table as the lines of a CSV, and as rows."""
    return {"lines": table.write_csv(float_precision=3).splitlines(), "rows": table.to_dicts()}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the path of the page, or the table."""
    if "lines" in result:
        return Shown(**result)
    return Shown([*result.get("findings", ()), result["report"]], warnings=caveats_of(result))


COMMANDS: Final = {"report": Command(
    "hindcast report evaluations/demo --out report.html",
    Request,
    "The last line of the output is the path of the page.\n\n"
    "--between compares an agent with itself, in evaluations of recipes that differ only in the\n"
    "training of the agent:\n"
    "  hindcast report A/evaluation B/evaluation --between score_ppo-best",
    recorded="asked",
    more=Table,
    read=_read,
)}  # fmt: skip
