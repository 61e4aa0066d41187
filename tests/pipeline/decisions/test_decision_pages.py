"""Tests of the pages about logs of decisions: their files, mappings, tables and sentences."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.decisions.mapping import parse_mapping
from hindcast.pipeline.decisions.proposals.proposal import propose
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.estimators.decisions.support import ENOUGH, decisions_needed
from tests.pipeline.decisions.decision_cases import real
from tests.test_documentation import DOCS, ROOT, blocks, rows_of

SHAPES = DOCS / "how-to" / "shapes-of-decision-logs.md"
PROPENSITIES = "how-to/log-propensities.md"


def sections():
    """The blocks of each section of the page of shapes, by its heading."""
    lines = SHAPES.read_text(encoding="utf-8").splitlines()
    starts = [(n, row[3:]) for n, row in enumerate(lines, start=1) if row.startswith("## ")]
    found = blocks(SHAPES)
    every = [(line, language, text) for line, language, text in found]
    return {
        heading: [(language, text) for line, language, text in every if begin < line < end]
        for (begin, heading), (end, _) in pairwise([*starts, (len(lines) + 1, "")])
    }


SECTIONS = sections()
MAPPED = [name for name, found in SECTIONS.items() if "toml" in dict(found)]


def test_every_shape_that_needs_a_mapping_has_a_section():
    shapes = {tomllib.loads(dict(SECTIONS[name])["toml"])["shape"] for name in MAPPED}
    assert shapes == {"rows", "nested", "wide"}
    assert len(MAPPED) == 4


@pytest.mark.parametrize("name", MAPPED)
def test_init_proposes_the_mapping_of_the_page_and_every_decision_is_read(name, tmp_path):
    table = tomllib.loads(dict(SECTIONS[name])["toml"])
    names = [table["file"], *([table["outcomes"]["file"]] if "outcomes" in table else [])]
    texts = [text for language, text in SECTIONS[name] if language == "text"]
    for file, text in zip(names, texts, strict=True):
        (tmp_path / file).write_text(text, encoding="utf-8")
    right = parse_mapping(table, "page")
    found = propose(tmp_path / table["file"])
    assert parse_mapping(tomllib.loads(found.toml), "init").as_table() == right.as_table()
    (tmp_path / "log.toml").write_text(found.toml, encoding="utf-8")
    counts = read_log(tmp_path / "log.toml").counts
    ids = re.findall(r'^(?:\{"id": ")?([abq]\d)\b', texts[0], re.MULTILINE)
    assert (counts["decisions"], counts["quarantined"]) == (len(set(ids)), 0)
    lost = (counts["censored"], counts["overridden"])
    assert lost == ((1, 1) if "Routers" in name else (0, 0))


def test_the_files_of_vowpal_wabbit_on_the_page_are_read(tmp_path):
    [(_, dsjson), (_, text)] = SECTIONS["VowpalWabbit: dsjson and cb_adf text"]
    (tmp_path / "log.dsjson").write_text(dsjson)
    (tmp_path / "log.txt").write_text(text)
    for name, features in (("log.dsjson", ["Item.price"]), ("log.txt", ["Item.price", "Item.old"])):
        log = read_log(tmp_path / name)
        assert (log.counts["decisions"], log.counts["candidates"]) == (1, 2)
        assert log.features.columns == features
        assert log.decisions["reward"].to_list() == [1.0]


def test_the_file_of_open_bandit_pipeline_on_the_page_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [(_, code)] = SECTIONS["Open Bandit Pipeline and Dataset"]
    exec(code, {})
    log = read_log(Path("obp.npz"))
    assert (log.counts["decisions"], log.counts["candidates"]) == (2, 6)


def test_the_table_of_sample_sizes_is_that_of_the_formula():
    rows = [row for row in rows_of(PROPENSITIES) if len(row) == 7]
    head, *rows = [row for row in rows if not row[1].startswith("---")]
    shares = [float(cell.removeprefix("e = ")) for cell in head[4:]]
    assert (shares, len(rows)) == ([0.02, 0.1, 1.0], 5)
    for _, spread, candidates, half, *cells in rows:
        n, h = int(candidates), float(half)
        sd = (0.01 * 0.99) ** 0.5 if spread == "0.0995" else float(spread)
        assert float(spread) == pytest.approx(sd, abs=5e-5)
        assert cells == [f"{decisions_needed(sd, n, h, e):,.0f}" for e in shares]
    text = " ".join((DOCS / PROPENSITIES).read_text(encoding="utf-8").split())
    assert f"it also takes {ENOUGH:.0f} effective decisions: about {ENOUGH:.0f} n / e" in text


def test_cautions_that_the_page_names_are_those_of_the_code():
    code = "".join(p.read_text("utf-8") for p in (ROOT / "pipeline/decisions").glob("*.py"))
    named = {
        name for row in rows_of(PROPENSITIES) if len(row) == 3
        for name in re.findall(r"`([a-z_]+)`", row[2])
    }  # fmt: skip
    assert len(named) == 8
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_every_caution_is_explained_among_the_warnings():
    code = "".join(p.read_text("utf-8") for p in (ROOT / "pipeline/decisions").rglob("*.py"))
    known = set(re.findall(r'Caution\(\s*"([a-z_]+)"', code)) | {"estimated", "no_propensities"}
    rows = [row for row in rows_of("how-to/read-the-warnings.md") if len(row) == 4]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row[0])}
    assert len(known) >= 20
    assert known <= named


def masked(text):
    """Return a text with every number as #, and without the widths of columns."""
    return re.sub(r" +", " ", re.sub(r"-?\d[\d,.]*\d|\d", "#", text)).strip()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_tutorial_on_a_public_log_shows_what_the_commands_print(tmp_path, monkeypatch, capsys):
    """Every fifth decision of the logs that the reader gets: other numbers in the same lines."""
    monkeypatch.chdir(tmp_path)
    obd = tmp_path / "zr-obp/obp/dataset/obd/bts"
    obd.mkdir(parents=True)
    (obd / "men").symlink_to(real() / "obd_men/bts")
    page = DOCS / "tutorials" / "decide-from-a-log.md"
    texts = [text for _, language, text in blocks(page) if language == "text"]
    commands = [row for text in texts for row in text.splitlines() if row.startswith("hindcast ")]
    for command in commands:
        if "/bts/men" in command or command.startswith("hindcast ope men-bts"):
            assert main(command.split()[1:]) == 0
    printed = {masked(row) for row in capsys.readouterr().out.splitlines()}
    [shown] = [t for t in texts if t.startswith("decisions-men") and "uniform" in t]
    assert {masked(row) for row in shown.splitlines()} <= printed
    assert main(["ope", "men-bts", "--policy", "lowest:item_feature_0"]) == 0
    printed = {masked(row).replace("lowest:item_feature_#", "uniform")
               for row in capsys.readouterr().out.splitlines()}  # fmt: skip
    [refused] = [t for t in texts if t.startswith("Cannot answer")]
    assert masked(refused) in printed
