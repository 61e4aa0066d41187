"""Tests of the ledger of a run."""

from hindcast.flows.runs.ledger import Ledger


def test_a_run_with_other_inputs_is_made_again(tiny_recipe, tmp_path):
    """A stage is skipped where its inputs and its output are those of the entry, and only there."""
    out, calls = tmp_path / "made", []

    def stage(**inputs):
        def make():
            calls.append(inputs)
            out.write_text("made")
            return {"report": str(out)}

        return Ledger(tmp_path, tiny_recipe.id, tiny_recipe.digest).stage(
            "report", inputs, out, make
        )

    for inputs in ({"dataset": "a"}, {"dataset": "a"}, {"dataset": "b"}, {"dataset": "b"}):
        assert stage(**inputs) == {"report": str(out)}
    assert calls == [{"dataset": "a"}, {"dataset": "b"}]
    out.write_text("changed")
    stage(dataset="b")
    assert len(calls) == 3


def test_a_reproduction_may_name_its_stages_like_those_of_a_run(tmp_path):
    """The result of a stage has the form of its kind of ledger, whatever the stage is called."""
    out, calls = tmp_path / "made", []

    def make():
        calls.append("train base")
        out.write_text("made")
        return {"seconds": 1.5}

    for _ in range(2):
        ledger = Ledger(tmp_path, "made", "0" * 64, "reproduction")
        assert ledger.stage("train base: seed0", {}, out, make) == {"seconds": 1.5}
    assert len(calls) == 1
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace("1.5", '"long"'))
    Ledger(tmp_path, "made", "0" * 64, "reproduction").stage("train base: seed0", {}, out, make)
    assert len(calls) == 2
