"""Tests of the ledger of a run."""

from flows.runs.ledger import Ledger


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
