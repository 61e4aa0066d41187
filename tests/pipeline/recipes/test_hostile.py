"""Recipes that nobody means: one clear line before anything is started."""

import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.pipeline.recipes.toml_text import parse_toml

NAME = "binpack-synthetic-v1"
TEXT = (recipe_folder() / NAME / "recipe.toml").read_text(encoding="utf-8")
FILES = {
    "deep list": ("x = " + "[" * 100_000 + "]" * 100_000, "nested too deeply, expected at most 16"),
    "list of 40": ("x = " + "[" * 40 + "]" * 40, "x: tables or lists are nested too deeply"),
    "deep table": ("x = " + "{a=" * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    "digits": (f"x = {'9' * 5000}", "a whole number has thousands of digits, expected at most 64"),
    "hexadecimal": (f"x = 0x{'f' * 5000}", "x is a whole number of 20,000 bits"),
    "a dotted key": (".".join(["a"] * 50_000) + " = 1", "has a key of more than 64 dotted parts"),
    "quoted": ("[" + ". ".join(['"a"'] * 50_000) + "]", "has a key of more than 64 dotted parts"),
    "inline": ("x = {" + " .".join(["a"] * 50_000) + "=1}", "line 1 has a key of more than 64"),
    "many keys": ("\n".join(f"other.k{i} = 1" for i in range(50_000)), "unknown key"),
    "one long word": ("a" * 900_000, "not valid TOML"),
    "short keys": ("\n".join([".".join(["a"] * 60)] * 7000), "not valid TOML"),
    "large": ("#" * 2_000_000, "bytes, expected at most 1,048,576"),
}
OVERRIDES = [
    ("behaviours=[{policy='tetris',epsilon=1.5}]", "epsilon is 1.5, expected from 0 to 1"),
    ("behaviours=[{policy='tetris',epsilon=-0.5}]", "epsilon is -0.5, expected from 0 to 1"),
    ("behaviours=[{policy='tetris',epsilon=inf}]", "epsilon is inf, expected from 0 to 1"),
    ("behaviours=[{policy='tetris',epsilon=nan}]", "epsilon is nan, expected from 0 to 1"),
    ("behaviours=[{policy='tetris',temperature=inf}]", "temperature is inf, expected at least 0"),
    ("behaviours=[{policy='tetris',temperature=-1}]", "temperature is -1.0, expected at least 0"),
    ("behaviours=[{policy='tetris',episodes=0}]", "episodes is 0, expected from 1 to 100,000"),
    ("behaviours=[{policy='tetris',episodes=1000000000000}]", "expected from 1 to 100,000"),
    ("behaviours=[{policy='tetris',episodes=100000}]", "expected at most 1,000,000"),
    ("config.machines=1000000000", "machines is 1000000000, expected from 1 to 100,000"),
    ("config.machine_cores=inf", "machine_cores is inf, expected above 0 (cores)"),
    ("seed=-1", "seed is -1, expected from 0 to 9,223,372,036,854,775,807"),
    (f"seed={'9' * 5000}", "a whole number has thousands of digits"),
    ("train.steps=0", "train: steps is 0, expected from 1"),
    ("train.seeds=[-1]", "train: seeds[0] is -1, expected from 0"),
    ("train.settings.cql.steps=0", "train.settings.cql: steps is 0, expected from 1"),
    ("train.settings.cql.steps=true", "train.settings.cql: steps is True, expected a whole number"),
    ("evaluate.seeds=0", "evaluate: seeds is 0, expected from 1 to 100,000"),
    ("evaluate.seeds=100000", "evaluate.seeds is 100,000: on"),
    ("online.iterations=0", "online: iterations is 0, expected from 1"),
    ("online.imitate_steps=-1", "online: imitate_steps is -1, expected from 0"),
    ("trace.settings={n_jobs=1000000000000}", "n_jobs is 1000000000000, expected from 1 to"),
    ("split.train='0..999999999999'", "[split] has 1,000,000,"),
    (f"{'a.' * 50_000}a=1", "a: tables or lists are nested too deeply"),
    (f"config={'[' * 5000}{']' * 5000}", "nested too deeply"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused(tmp_path, name):
    text, words = FILES[name]
    path = tmp_path / "recipe.toml"
    path.write_text(f"{text}\n{TEXT}", encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert words in str(error.value)
    assert len(str(error.value)) < 500
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(("override", "words"), OVERRIDES, ids=lambda text: text[:60])
def test_a_number_that_cannot_be_meant_is_refused_by_the_command_line(
    tmp_path, capsys, override, words
):
    out = tmp_path / "out"
    assert main(["build", NAME, "--set", override, "--direct", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert len(said) < 1000
    assert not out.exists()


def test_what_people_write_is_read():
    long = "a.b.c. " * 20
    assert parse_toml(f'description = "{long}"\nx.y."z w".v = [[1], {{a.b = 2}}]', "f") == {
        "description": long,
        "x": {"y": {"z w": {"v": [[1], {"a": {"b": 2}}]}}},
    }
    assert len(known_recipes()) > 40
