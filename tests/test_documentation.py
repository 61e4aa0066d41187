"""The documentation does what it says: its commands and snippets run, its links lead somewhere.

Every block marked `bash` or `python` is run, page by page and in order, in an empty folder with a
link to examples/. Commands that no rule of `Shell` covers fail the test. Blocks marked `text` are
not run; tests/test_documented_commands.py checks their commands.
"""

import glob
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
from docutils import nodes
from docutils.utils import new_document
from myst_parser.slugs import github_slugify, unique_slug

from docs.generate import TABLES, leaderboard, pages_of, write_pages
from docs.generate.tables import table_pages
from docs.rule_titles import explain, title_of
from hindcast.pipeline.gymnasium_env.registration import ENVIRONMENTS
from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from hindcast.pipeline.recipes.recipe import LEVELS
from hindcast.policies.online import ONLINE_AGENTS
from tests.conftest import TINY
from tests.representatives import nightly_but

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
STANDARD = sorted((ROOT / "datasets").glob("*.md"))  # of datasets
LONGEST_PAGE = 150  # lines
LARGEST_PAGE = 40_000  # bytes

# Overrides that make a recipe small. They come before those of the page, which win.
_SLOTS = (
    "config.steps=10", 'split.train="0..3"', 'split.validation="200..201"',
    'split.test="250..253"', "evaluate.seeds=1",
)  # fmt: skip
_TOY = (
    'split.train="0..3"', 'split.validation="4..5"', 'split.test="6..9"', "config.jobs=5",
    "train.steps=20",
)  # fmt: skip
SMALL: Final = {
    "binpack-synthetic-v1": TINY,
    "slots-deeprm-v1": _SLOTS,
    "slots-demo-v1": (
        *_SLOTS, "train.settings.cql.steps=4", "train.settings.preference_ensemble.steps=4",
        "online.iterations=2", "online.settings.sampling={trajectories=4, windows=2}",
    ),
    "slots-deeprm-natural": (
        *_SLOTS, "online.iterations=2",
        "online.settings.sampling={trajectories=3, windows=2}",
        "online.settings.network={hidden=[4]}",
    ),
    "slots-online": (
        *_SLOTS, "online.iterations=2", "online.settings.gradient_steps=4",
        "online.settings.sampling={windows=2}",
    ),
    "example.toml": (  # of the made log
        "train.steps=20", "evaluate.seeds=1", 'split.train="0..9"', 'split.test="79..84"',
    ),
    "cluster.toml": ("train.steps=20", 'split.train="0..9"', 'split.test="90..95"'),
    "examples/toy/recipe.toml": _TOY,
}  # fmt: skip
FEWER: Final = 50  # numbers of steps are divided by this
STEPS: Final = {
    "train": ("--steps", "--checkpoint-every"), "ope": ("--fqe-steps",),
    "train-online": ("--imitate-steps",),
}  # fmt: skip
DIRECT: Final = (
    "ingest", "build", "train", "train-online", "evaluate", "report", "study", "run", "nightly",
)  # fmt: skip
NOT_RUN: Final = ("make", "pip", "source", "git")  # commands about the installation
# Libraries that a page needs beside those of the tests; `make test-libraries` installs them.
FURTHER: Final = {"torchrl.md": "torchrl", "jax.md": "jax", "tianshou.md": "tianshou"}
TRACES: Final = "/data/traces"  # in pages: the reader's folder of real traces


def pages() -> list[Path]:
    """Every page that a person may read in the repository, but for the list of changes."""
    written = [p for p in DOCS.rglob("*.md") if not {"generated", "_build"} & set(p.parts)]
    return sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *STANDARD, *written])


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Line, language and text of every fenced block of a page."""
    fence, start, language, lines = "", 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        opened = re.match(r"^(`{3,}|:{3,})(.*)$", line)
        if not fence and opened:
            fence, start, language, lines = opened[1], number, opened[2].strip(), []
        elif fence and line.strip() == fence:
            yield start, language, "\n".join(lines) + "\n"
            fence = ""
        elif fence:
            lines.append(line)
    assert not fence, f"{page.name}:{start}: the block does not end"


def small(recipe: str, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the overrides that make a recipe small, with the windows that are given."""
    late = recipe == "binpack-synthetic-v1" and 'split.validation="80..81"' in given
    return (*SMALL.get(recipe, ()), *(["trace.settings.n_jobs=420"] if late else []))


def fewer(count: str) -> str:
    return str(max(2, int(count) // FEWER))


class Shell:
    """The few commands of a shell that pages use; anything else is refused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        self.monkeypatch = monkeypatch
        self.request = request
        self.places = os.environ.get("HINDCAST_TRACES")  # pages may set it to a folder of theirs

    def run(self, text: str) -> None:
        """Run the lines of a block, one after the other."""
        lines = iter(text.replace("\\\n", " ").splitlines())
        for line in lines:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            written = re.match(r"^cat > (\S+) <<'(\w+)'$", line)
            if written:
                content = []
                while (row := next(lines)) != written[2]:
                    content.append(row)
                Path(written[1]).write_text("\n".join(content) + "\n", encoding="utf-8")
                continue
            self.command(line)

    def command(self, line: str) -> None:
        """Run one command."""
        words = [w for word in shlex.split(line, comments=True) for w in self.expanded(word)]
        name, rest = words[0], words[1:]
        if name == "hindcast":
            self.hindcast(rest)
        elif name == "export" and all("=" in word for word in rest):
            for word in rest:
                self.monkeypatch.setenv(*word.split("=", 1))
        elif name == "python" and rest and rest[0].startswith("examples/"):
            assert (ROOT / rest[0]).is_file(), line  # tests/test_examples.py runs it
        elif name == "sha256sum":
            assert all(Path(word).is_file() for word in rest), line
        elif name == "mkdir" and rest[:1] == ["-p"]:
            Path(rest[1]).mkdir(parents=True, exist_ok=True)
        else:
            assert name in NOT_RUN, f"no rule for the command {line!r}"

    def expanded(self, word: str) -> list[str]:
        """Return a word with $PWD, the folder of traces and wildcards replaced."""
        word = word.replace("$PWD", str(Path.cwd()))
        if TRACES in word:
            self.monkeypatch.delenv("HINDCAST_TRACES", raising=False)
            if self.places is not None:
                self.monkeypatch.setenv("HINDCAST_TRACES", self.places)
            word = word.replace(TRACES, str(self.request.getfixturevalue("traces")))
        if "*" in word and "=" not in word:
            found = sorted(glob.glob(word))  # noqa: PTH207 - of relative names, as a shell
            assert found, f"{word} matches nothing"
            return found
        return [word]

    def hindcast(self, words: list[str]) -> None:
        """Run a command of Hindcast in this process, with small settings."""
        from hindcast.flows.cli import main

        command = words[0]
        for flag in STEPS.get(command, ()):
            if flag in words:
                at = words.index(flag) + 1
                words[at] = fewer(words[at])
        words = [
            f"train.steps={fewer(w.partition('=')[2])}" if w.startswith("train.steps=") else w
            for w in words
        ]
        overrides = small(words[1], words) if len(words) > 1 else ()
        if overrides:  # pages name the recipe, so that its id must not be marked as changed
            overrides = (*overrides, f'id="{words[1]}"')
        sets = [word for value in overrides for word in ("--set", value)]
        direct = ["--direct"] if command in DIRECT and "--help" not in words else []
        argv = [*words[:2], *sets, *words[2:], *direct]
        assert main(argv) == 0, shlex.join(["hindcast", *argv])


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Shell]:
    """A shell in an empty folder; what pages register and import is forgotten afterwards."""
    import hindcast
    from hindcast.pipeline.exports import EXPORTS
    from hindcast.pipeline.scenarios import SCENARIOS
    from hindcast.pipeline.traces import FORMATS
    from hindcast.policies.offline import AGENTS
    from hindcast.policies.online import ONLINE_AGENTS

    load, train = hindcast.load_recipe, hindcast.train
    monkeypatch.setattr(hindcast, "load_recipe", lambda r, o=(): load(r, (*small(str(r)), *o)))

    def trained(*args, steps=2000, **settings):
        return train(*args, steps=int(fewer(str(steps))), **settings)

    monkeypatch.setattr(hindcast, "train", trained)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("HINDCAST_PLUGINS", raising=False)
    monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    registries = (SCENARIOS, AGENTS, ONLINE_AGENTS, FORMATS, EXPORTS)
    known = [dict(registry._known) for registry in registries]
    modules = set(sys.modules)
    yield Shell(monkeypatch, request)
    for registry, before in zip(registries, known, strict=True):
        registry._known = before
    for name in {path.stem for path in (ROOT / "examples").glob("*.py")} - modules:
        sys.modules.pop(name, None)


RUN = [page for page in pages() if {"bash", "python"} & {each[1] for each in blocks(page)}]
LONG = {page for page in RUN if page.parent.name == "tutorials" or "researcher" in page.name}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of libraries that read exports
@pytest.mark.parametrize(
    "page",
    nightly_but({*RUN} - LONG, RUN),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_commands_and_snippets_of_a_page_run(page, shell):
    if library := FURTHER.get(page.name):
        reason = f"{library} is not installed; make test-libraries installs it"
        pytest.importorskip(library, reason=reason)
    namespace = {"__name__": "page"}
    for line, language, text in blocks(page):
        if language == "bash":
            shell.run(text)
        elif language == "python":
            code = compile("\n" * line + text, str(page), "exec")
            exec(code, namespace)


def test_a_command_without_a_rule_is_refused(shell):
    """A page cannot have commands that look tested and are not."""
    shell.run("# a comment\npip install .\nmkdir -p a/b\nexport A=1 B=$PWD\n")
    assert (os.environ["A"], os.environ["B"]) == ("1", str(Path.cwd()))
    shell.run("cat > file <<'END'\none $PWD\nEND\n")
    assert Path("file").read_text() == "one $PWD\n"
    for line in ("rm -r a", "curl example.org", "cat file", "python examples/none.py", "cd a/*/c"):
        with pytest.raises(AssertionError):
            shell.run(line)


def test_blocks_that_are_run_hold_commands_only():
    """Blocks of `hindcast` commands are marked: bash if they are run, text if not."""
    for page in pages():
        for line, language, text in blocks(page):
            where = f"{page.relative_to(ROOT)}:{line}"
            assert language, f"{where}: the block has no language"
            commands = [row for row in text.splitlines() if row.startswith("hindcast ")]
            assert not commands or language in {"bash", "text"}, where


@pytest.fixture(scope="module")
def texts() -> Mapping[str, str]:
    """The text of every page by its path, also of those that are made when docs are built.

    Readers of a repository see no included text; what a page includes is added to it for headings.
    """
    made = {f"docs/generated/{name}": text for name, text in pages_of().items()}
    return made | {
        page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
        for page in [*pages(), *(ROOT / "datasets").glob("*/*/README.md")]
    }


def beside(page: str, name: str) -> str:
    """Return the path of a file that a page names relative to itself."""
    return Path(os.path.normpath(Path(page).parent / name)).as_posix()


def anchors(page: str, texts: Mapping[str, str]) -> set[str]:
    """Return the names of the headings of a page and of what it includes."""
    found: set[str] = set(re.findall(r"^\(([\w-]+)\)=$", texts[page], re.MULTILINE))
    for part in re.findall(r"^`{3}{include} (\S+)$", texts[page], re.MULTILINE):
        found |= anchors(beside(page, part), texts)
    plain = re.sub(r"^(`{3,}).*?^\1", "", texts[page], flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ +(.*?) *$", plain, re.MULTILINE):
        found.add(unique_slug(github_slugify(heading.replace("`", "")), found))
    return found


def links(text: str) -> list[str]:
    """Return the relative targets of the links of a page, without those in code."""
    text = re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))
    return [target for target in found if not re.match(r"^[a-z]+:", target)]


@pytest.mark.slow
def test_every_relative_link_leads_to_a_file_and_every_anchor_to_a_heading(texts):
    """Pages below docs/generated are made when the documentation is built."""
    broken = []
    for page, text in texts.items():
        for target in links(text):
            name, _, anchor = target.partition("#")
            place = beside(page, name) if name else page
            there = place in texts or (ROOT / place).exists()
            if not there or (anchor and anchor not in anchors(place, texts)):
                broken.append(f"{page}: {target}")
    assert not broken


@pytest.mark.slow
def test_every_page_is_in_the_contents(texts):
    """From docs/index.md a reader comes to every page of docs."""
    reached, queue = set[str](), ["docs/index.md"]
    while queue:
        page = queue.pop()
        if page in reached or page not in texts:
            continue
        reached.add(page)
        for body in re.findall(
            r"^`{3}{toctree}\n(.*?)^`{3}", texts[page], re.MULTILINE | re.DOTALL
        ):
            names = [row for row in body.split() if not row.startswith(":")]
            queue += [beside(page, f"{name}.md") for name in names]
        queue += [
            beside(page, part)
            for part in re.findall(r"^`{3}{include} (\S+)$", texts[page], re.MULTILINE)
        ]
    assert {page for page in texts if page.startswith("docs/")} <= reached


def test_links_and_anchors_are_found():
    """The tests of links would find broken ones."""
    text = "# A `b` c.d\n[x](y.md#z) `[no](code)`\n```text\n# no\n[no](block)\n```\n## A\n## A\n"
    assert links(text) == ["y.md#z"]
    assert anchors("p.md", {"p.md": text}) == {"a-b-cd", "a", "a-1"}


@pytest.mark.slow
def test_committed_tables_are_those_of_the_code():
    """`python -m docs.generate` writes them."""
    written = {path.name: path.read_text(encoding="utf-8") for path in TABLES.iterdir()}
    assert written == {name: f"{text.rstrip()}\n" for name, text in table_pages().items()}
    assert leaderboard.PAGE.read_text(encoding="utf-8") == leaderboard.leaderboard()


def test_pages_that_stay_the_same_are_not_written_again(tmp_path):
    """Sphinx reads a page again if its time has changed."""
    write_pages(tmp_path, {"a.md": "1", "b/c.md": "2", "d.md": "3"})
    os.utime(tmp_path / "a.md", (0, 0))
    write_pages(tmp_path, {"a.md": "1\n", "b/c.md": "4"})
    assert (tmp_path / "a.md").stat().st_mtime == 0
    assert (tmp_path / "b/c.md").read_text() == "4\n"
    assert not (tmp_path / "d.md").exists()


def test_names_of_rules_are_explained_where_they_stand():
    known = {"fifo": {"binpack": "first in", "slots": "first come"}, "hold": {"slots": "wait"}}
    assert title_of("hold@rollout", "concepts/kernel", known) == "wait"
    assert title_of("fifo", "scenarios/binpack", known) == "first in"
    assert title_of("fifo", "papers/deeprm", known) == "first come"
    assert title_of("fifo", "index", known) == "binpack: first in; slots: first come"
    assert title_of("epsilon", "index", known) is None
    document, section = new_document("page"), nodes.section()
    heading, paragraph = nodes.title(), nodes.paragraph()
    heading.append(nodes.literal("hold", "hold"))
    paragraph.extend([nodes.literal(name, name) for name in ("hold", "epsilon")])
    section += [heading, paragraph]
    document += section
    explain("index", document, known)
    (short,) = document.findall(nodes.abbreviation)
    assert (short.parent, short["explanation"], short.astext()) == (paragraph, "wait", "hold")


def test_no_page_is_too_long():
    found = {p: p.read_text(encoding="utf-8") for p in pages()}
    lines = {p.name: n for p, t in found.items() if (n := t.count("\n")) > LONGEST_PAGE}
    assert not lines
    assert not {p.name: len(t) for p, t in found.items() if len(t) > LARGEST_PAGE}


def rows_of(page: str) -> Iterator[list[str]]:
    """The cells of every row of the tables of a page."""
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("| ").split(" | ")]


@pytest.mark.slow
def test_the_tutorial_names_the_recipes_of_every_online_agent():
    recipes = {r.id: r.online.agent for r in map(load_recipe, known_recipes()) if r.online.agent}
    named = {row[0]: row[-1] for row in rows_of("tutorials/agents-that-play.md") if len(row) == 3}
    for agent in ONLINE_AGENTS:
        patterns = re.findall(r"`([^`]+)`", named[f"`{agent}`"])
        found = {name for name in recipes if any(fnmatch(name, each) for each in patterns)}
        assert found == {name for name, of in recipes.items() if of == agent}, agent


def test_lists_of_pages_are_complete():
    """Ids of Gymnasium with their recipes, levels of datasets, and deployments."""
    rows = [row for row in rows_of("how-to/gymnasium.md") if len(row) == 2]
    ids = {row[0]: row[1] for row in rows if row[0].startswith("`hindcast/")}
    assert {f"`{name}`" for name in ENVIRONMENTS} == ids.keys()
    for name, arguments in ENVIRONMENTS.items():
        assert arguments.get("recipe", "none") in ids[f"`{name}`"]
    levels = {row[0].strip("`") for row in rows_of("concepts/datasets.md")}
    assert set(LEVELS) <= levels
    page = " ".join((DOCS / "how-to" / "prefect.md").read_text(encoding="utf-8").split())
    deployed = re.search(r"has the deployments (.*?)\. None", page)[1]
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    assert re.findall(r"`(\w+)`", deployed) == re.findall(r"^  - name: (\w+)", text, re.MULTILINE)
