"""Builds and checks what a release publishes: `python -m tests.release --out dist [--tag vX.Y.Z]`.

Wheel and sdist are compared with the files that git tracks, and the wheel is installed into an
environment of its own. With a tag, the changelog, the citation and the addresses have to be final.
Only the standard library and `build` are needed. `make release-check` calls it.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("hindcast.py", "pipeline", "policies", "flows", "py.typed")
UNSET = "hindcast.example"  # a name that nobody can own: the address of the repository is not known
DOCUMENTS = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", ".zenodo.json")
TEXT = (
    ".css",
    ".csv",
    ".html",
    ".jinja",
    ".js",
    ".json",
    ".md",
    ".py",
    ".toml",
    ".txt",
    "METADATA",
)


def main() -> int:
    """Return 0 if all holds, else print a line per fault and return 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag", default="", help="check as the release of this tag")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for old in [*given.out.glob("*.whl"), *given.out.glob("*.tar.gz")]:
        old.unlink()
    run("build", "--outdir", given.out)  # the sdist, and the wheel from it
    [wheel], [sdist] = given.out.glob("*.whl"), given.out.glob("*.tar.gz")
    files = git("ls-files")
    documents = {name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    version = tomllib.loads(documents["pyproject.toml"])["project"]["version"]
    contents, packed = wheel_contents(wheel), sdist_contents(sdist)
    faults = version_faults(documents, given.tag)
    faults += file_faults(contents, wheel_names(files, version), wheel.name)
    faults += file_faults(packed, {*files, "PKG-INFO"}, sdist.name)
    faults += text_faults(contents, {str(ROOT), str(Path.home())})
    if given.tag and git("status", "--porcelain"):
        faults.append("the checkout has changes that are not committed")
    with tempfile.TemporaryDirectory() as folder:
        run("build", "--wheel", "--outdir", folder)
        if (Path(folder) / wheel.name).read_bytes() != wheel.read_bytes():
            faults.append(f"{sdist.name} gives another wheel than the checkout")
    if not faults:  # what is incomplete need not be installed, which takes a minute
        faults = installed_faults(wheel, files, version)
    (given.out / "notes.md").write_text(section(documents["CHANGELOG.md"]), encoding="utf-8")
    (given.out / "SHA256SUMS").write_text(
        "".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in (wheel, sdist)
        )
    )
    print(*faults or [f"{wheel.name} and {sdist.name} can be released"], sep="\n")
    return 1 if faults else 0


def version_faults(documents: Mapping[str, str], tag: str) -> list[str]:
    """Return where versions differ. With a tag, date and address have to be filled in."""
    version = tomllib.loads(documents["pyproject.toml"])["project"]["version"]
    [newest, date] = re.search(
        r"^## (\S+) \(([^)]+)\)", documents["CHANGELOG.md"], re.MULTILINE
    ).groups()
    found = re.findall(r"^([\w-]+|  - [\w]+): (.+)$", documents["CITATION.cff"], re.MULTILINE)
    cited = {key.strip(" -"): value.strip('"') for key, value in found}
    archive = json.loads(documents[".zenodo.json"])
    faults = [
        f"{name} is of version {other}, pyproject.toml of {version}"
        for name, other in {
            "CHANGELOG.md": newest,
            "CITATION.cff": cited["version"],
            ".zenodo.json": archive["version"],
            "the tag": tag.removeprefix("v") or version,
        }.items()
        if other != version
    ]
    said = {
        "title": archive["title"], "license": archive["license"],
        "name": archive["creators"][0]["name"], "date-released": archive["publication_date"],
    }  # fmt: skip
    faults += [
        f".zenodo.json has the {key} {other!r}, CITATION.cff {cited.get(key)!r}"
        for key, other in said.items()
        if other != cited.get(key)
    ]
    if tag and not tag.startswith("v"):
        faults.append(f"the tag is {tag}, not v{version}")
    if tag and date != cited["date-released"]:
        faults.append(f"CHANGELOG.md is dated {date}, CITATION.cff {cited['date-released']}")
    return faults + [
        f"{name} has {UNSET} for the address of the repository"
        for name in ("pyproject.toml", "CITATION.cff")
        if tag and UNSET in documents[name]
    ]


def wheel_names(files: list[str], version: str) -> set[str]:
    """Return the names that a wheel of these tracked files has: one package, recipes, metadata."""
    stem = f"hindcast_scheduling-{version}"
    names = {
        "hindcast/" + ("__init__.py" if name == "hindcast.py" else name)
        for name in files if name.split("/")[0] in SOURCES
    }  # fmt: skip
    names |= {f"{stem}.data/data/share/hindcast/{n}" for n in files if n.startswith("datasets/")}
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    return names | {f"{stem}.dist-info/{name}" for name in metadata}


def file_faults(contents: Mapping[str, bytes], expected: set[str], archive: str) -> list[str]:
    """Return which files an archive lacks, and which it should not have."""
    return [
        *(f"{archive} lacks {name}" for name in sorted(expected - contents.keys())),
        *(f"{archive} has {name}" for name in sorted(contents.keys() - expected)),
    ]


def text_faults(contents: Mapping[str, bytes], private: set[str]) -> list[str]:
    """Return files that name a folder of this machine, and links that an index cannot follow."""
    faults = [
        f"{name} names {folder}"
        for name, content in contents.items() if name.endswith(TEXT)
        for folder in private if f"{folder}/".encode() in content
    ]  # fmt: skip
    [page] = [text.decode() for name, text in contents.items() if name.endswith("/METADATA")]
    faults += [
        f"README.md links to {link}, which an index page does not have"
        for link in re.findall(r"\]\(([^)\s]+)\)", page.partition("\n\n")[2])
        if not link.startswith(("https://", "#"))
    ]
    return faults


def installed_faults(wheel: Path, files: list[str], version: str) -> list[str]:
    """Return what the installed wheel lacks: its version, or one of the recipes."""
    recipes = {
        name.split("/")[1] for name in files if re.fullmatch(r"datasets/.*/recipe.toml", name)
    }
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        bin_folder = Path(folder) / "bin"
        run(
            "pip",
            "install",
            "-q",
            "-c",
            ROOT / "constraints.txt",
            wheel,
            python=bin_folder / "python",
        )
        said = {
            command: subprocess.run(
                command.split(), executable=bin_folder / command.split()[0], cwd=folder,
                check=True, capture_output=True, text=True,
            ).stdout
            for command in ("hindcast --version", "hindcast list --recipes")
        }  # fmt: skip
    faults = [] if version in said["hindcast --version"] else ["the installed version is another"]
    missing = recipes - set(said["hindcast list --recipes"].split())
    return faults + [f"the installed package has no recipe {name}" for name in sorted(missing)]


def wheel_contents(wheel: Path) -> dict[str, bytes]:
    """Return the content of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sdist_contents(sdist: Path) -> dict[str, bytes]:
    """Return the content of an sdist by name, without the folder that holds all of it."""
    with tarfile.open(sdist) as archive:
        members = [member for member in archive if member.isfile()]
        return {m.name.partition("/")[2]: archive.extractfile(m).read() for m in members}


def section(changelog: str) -> str:
    """Return the newest section of the changelog, without its heading."""
    return changelog.split("\n## ")[1].partition("\n")[2].strip() + "\n"


def run(*command: object, python: Path | str = sys.executable) -> None:
    """Run a module of Python in the checkout."""
    subprocess.run([python, "-m", *map(str, command)], cwd=ROOT, check=True, stdout=sys.stderr)


def git(*command: str) -> list[str]:
    """Return the lines that git prints."""
    return subprocess.run(
        ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
