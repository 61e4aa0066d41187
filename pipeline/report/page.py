"""Report about evaluations: one self-contained HTML page, with its numbers in files beside it.

    out/report.html            the page; it loads nothing and works without scripts
    out/summary.parquet        all numbers with all digits
    out/summary_seeds.parquet  the same, seed by seed
    out/summary.md             its tables as Markdown
    out/results.csv            every policy against every baseline, on the headline metric
    out/results.md             the same as a page

The same input gives the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hindcast.pipeline.evaluation.summary.finding import state_finding
from hindcast.pipeline.evaluation.summary.pairing import Setting
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.evaluation.summary.summarise import Summary, summarise
from hindcast.pipeline.evaluation.summary.writing import write_summary
from hindcast.pipeline.report.curves import by_agent, training_part, training_runs
from hindcast.pipeline.report.estimates import estimates_part
from hindcast.pipeline.report.extras import dataset_part
from hindcast.pipeline.report.html import Markup, definitions, element, joined, section
from hindcast.pipeline.report.quality import quality_part
from hindcast.pipeline.report.rules import Listed, explained, rules_part
from hindcast.pipeline.report.setting import setting_section
from hindcast.pipeline.report.tables import policies_table, shortfalls
from hindcast.pipeline.statistics.intervals import RESAMPLES
from hindcast.pipeline.statistics.numbers import count_of
from hindcast.pipeline.storage.locks import one_writer

# Security policy: the page loads nothing, even if a name in the data is crafted to.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@one_writer
def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    training: Sequence[Path] = (),
    datasets: Sequence[Path] = (),
    estimates: Sequence[Path] = (),
    studies: Sequence[Path] = (),
    metrics: Sequence[str] = (),
    resamples: int = RESAMPLES,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write report.html and the summary files into the folder `out`.

    Args:
        folders: Evaluation folders (evaluation.json, scores.parquet).
        out: Folder of the report.
        training: Folders of training runs (metrics.parquet: step, metric, value), or folders with a
            `training/` of them. Evaluation folders are searched as well.
        datasets: Dataset folders.
        estimates: Folders of off-policy estimates (ope.json, estimates.parquet).
        studies: Folders of data-quality studies (study.parquet).
        metrics: Outcomes that results.csv holds in addition to the headline.
        resamples: Number of bootstrap resamples.
        tell: Called with the finding of every setting, a sentence.

    Returns:
        Path of the page.

    Raises:
        DatasetError: A folder is missing, is no evaluation, or cannot be compared.
        UnknownName: No evaluation has one of `metrics`.
        StorageError: `out` cannot be written.
    """
    summary = summarise(folders, resamples=resamples)
    parts, listed, known = [], Listed(), dict[str, str]()
    for i, setting in enumerate(summary.settings, start=1):
        name = "Finding" if len(summary.settings) == 1 else setting.label
        part = setting_section(summary, setting, f"finding-{i}", name)
        sentences = described(setting.entries.values())
        known = {**sentences, **known}
        parts.append((f"finding-{i}", name, explained(part, sentences, listed)))

    def add(identifier: str, title: str, content: Markup, names: Mapping[str, str] = known) -> None:
        content = explained(content, names, listed)
        parts.append((identifier, title, section(identifier, title, content)))

    if runs := training_runs([*training, *folders]):
        for agent, inside in by_agent(runs).items():
            known.setdefault(agent, f"agent of the training {', '.join(r.name for r in inside)}")
        add("training", "Training", training_part(runs, _curves_first(summary)))
    if estimates:
        add("estimates", "Off-policy estimates", estimates_part(estimates))
    if studies:
        add("quality", "Data quality", quality_part(studies))
    if datasets:
        add("datasets", "Datasets", dataset_part(datasets))
    add("left-out", "Data left out, and notes", _left_out(summary))
    add("reading", "How to read this", _reading(summary, resamples), {})
    add("provenance", "Provenance", _provenance(summary))
    add("rules", "Rules on this page", rules_part(listed), {})
    for setting in summary.settings:
        tell(state_finding(summary, setting).sentence)
    page = _page(summary, parts)
    return write_summary(summary, out, metrics, {"report.html": page}) / "report.html"


def _page(summary: Summary, parts: Sequence[tuple[str, str, Markup]]) -> str:
    """Return the page with some sections, each an (id, title, section)."""
    heading = " and ".join(dict.fromkeys(s.first.recipe or s.label for s in summary.settings))
    links = (element("a", name, href=f"#{identifier}") for identifier, name, _ in parts)
    header = element(
        "header",
        element("div", "Hindcast evaluation report", class_="brand"),
        element("h1", heading),
        joined(element("p", _subtitle(summary, s), class_="subtitle") for s in summary.settings),
        element("nav", joined(links), aria_label="Sections"),
    )
    footer = element(
        "footer",
        "Written by Hindcast. The numbers of this page are also in summary.parquet, "
        "summary_seeds.parquet and summary.md; results.csv compares every policy with every "
        "baseline.",
    )
    body = element(
        "div", header, element("main", joined(p for _, _, p in parts)), footer, class_="page"
    )
    description = " ".join(state_finding(summary, s).sentence for s in summary.settings)
    return document(f"{heading}: Hindcast evaluation report", description, body)


def document(title: str, description: str, body: Markup) -> str:
    """Return a whole page in the style of a report, which loads nothing."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="description", content=description),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(style_sheet())),
    )
    script = element("script", Markup(_asset("page.js")))
    page = element("html", head, element("body", body, script), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _curves_first(summary: Summary) -> list[str]:
    """Return the metrics that come first: the return, and the headline outcome."""
    headlines = [s.first.headline for s in summary.settings]
    names = dict.fromkeys(["return", *headlines])
    return [*names, *(f"validation_{name}" for name in names)]


def style_sheet() -> str:
    """Return the style of reports, with the light scheme first."""
    return _asset("page.css")


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _subtitle(summary: Summary, setting: Setting) -> str:
    headline = summary.headline(setting)
    facts = [
        f"scenario {setting.label}",
        f"objective {setting.first.objective}" if setting.first.objective else "",
        f"{setting.first.split} split" if setting.first.split else "",
        count_of(len(headline.windows), "window"),
        count_of(len(headline.policies), "policy", "policies"),
    ]
    return " · ".join(fact for fact in facts if fact)


def _left_out(summary: Summary) -> Markup:
    items = list(_left_out_items(summary))
    if not items:
        return element(
            "p", "Nothing was left out: all policies were run to the end on the same windows."
        )
    return element("ul", joined(element("li", item) for item in items))


def _left_out_items(summary: Summary) -> Iterator[str]:
    for setting in summary.settings:
        prefix = f"{setting.label}: " if len(summary.settings) > 1 else ""
        for sentence in summary.left_out[setting.label]:
            yield prefix + sentence
        for metric, totals in shortfalls(summary, setting).items():
            counts = ", ".join(f"{name} {total:g}" for name, total in totals.items() if total)
            yield (
                f"{prefix}{metric}, summed over windows and averaged over seeds: {counts}. The "
                "means above include these windows in the state in which they ended."
            )
        for note in dict.fromkeys(note for e in setting.evaluations for note in e.notes):
            yield prefix + note


def _reading(summary: Summary, resamples: int) -> Markup:
    level = f"{summary.level * 100:g} %"
    odds = round(1 / (1 - summary.level))
    texts = {
        "Windows": """A window is one problem instance: a fixed set of jobs. All policies schedule
            the same windows.""",
        "Paired differences": """The difference of two policies is taken on each window and then
            averaged, so that hard and easy windows cancel out.""",
        "Intervals": f"""{level} percentile bootstrap with {resamples:,} resamples of the windows.
            Evaluation seeds are averaged inside a window; training seeds are resampled as
            well.""",
        "Wins, ties, losses": """Numbers of windows on which the policy's average over seeds is
            better than, equal to or worse than that of the reference.""",
        "Chance of improvement": """Probability that one run of the policy beats one run of the
            reference on a random window; ties count one half. 0.5 means no difference (Agarwal et
            al. 2021).""",
        "IQM": """Interquartile mean: the mean of the middle half of all values. A few extreme
            windows move it less than the mean.""",
        "Strongest simple policy": """The best policy by mean that was not learned. It was picked
            on these windows after the fact, which favours it slightly.""",
        "Several comparisons": f"""About one in {odds} intervals misses its true value by chance.
            With many policies and metrics, expect some to do so.""",
    }
    if any(bound is not None for bound in summary.bounds.values()):
        texts["Bound"] = """No policy can do better than the bound on the same windows; usually no
            policy can reach it either."""
    pairs = ((term, " ".join(text.split())) for term, text in texts.items())
    return definitions(pairs, "reading")


def _provenance(summary: Summary) -> Markup:
    parts: list[Markup] = []
    for setting in summary.settings:
        first = setting.first
        if len(summary.settings) > 1:
            parts.append(element("h3", setting.label))
        versions = {k: v for e in setting.evaluations for k, v in e.versions.items()}
        commands = dict.fromkeys(e.command for e in setting.evaluations if e.command)
        pairs = [
            ("recipe", first.recipe),
            ("recipe digest", element("code", first.digest) if first.digest else ""),
            ("split", first.split),
            ("headline metric", first.headline),
            ("folders", ", ".join(str(e.folder) for e in setting.evaluations)),
            ("command", joined(element("code", command) for command in commands)),
            ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("computed by", joined(element("div", told) for told in _computed(setting))),
        ]
        parts += [definitions(pairs, "facts"), policies_table(setting)]
    return joined(parts)


def _computed(setting: Setting) -> list[str]:
    """Return a line for every session that scored or trained something: commit and processor."""
    found = {key: record for e in setting.evaluations for key, record in e.records.items()}
    keys = ("hindcast", "commit", "processor", "instructions")
    return [
        f"{key}: " + ", ".join(str(record[name]) for name in keys if name in record)
        for key, record in found.items()
    ] or ["not recorded"]
