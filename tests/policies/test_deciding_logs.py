"""Tests of decisions in the schema of a log: drawn, explained, logged, and ingested again."""

import io
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import hindcast
from hindcast.flows import cli
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.decisions.arrays import logged_decisions
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import read_record
from hindcast.pipeline.decisions.scoring import scored
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.errors import InputError
from hindcast.policies.deciding_logs import load_log_decider
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.linear import linear_of, write_weights
from hindcast.policies.training.job import Options
from tests.policies.test_deciding import CTC, KTH
from tests.policies.training.delivery.test_logs_of_decisions import made, simulated, train


def records_of(table) -> list[dict]:
    """Return the decisions of a table in rows as records that are still to be decided."""
    return [
        {"id": name, "t": rows["t"][0], "load": rows["load"][0],
         "candidates": rows.select("arm", "x", "y", "kind").to_dicts()}
        for (name,), rows in table.group_by("id", maintain_order=True)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return simulated(2000, lambda x, y: x + y, missing=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    return made(tmp_path_factory.mktemp("log"), table)


@pytest.fixture(scope="module")
def agent(folder):
    """Return a linear agent that was trained from the log."""
    out = folder.parent / "agent"
    settings = {"network.hidden": []}
    return train(folder, "cql", out, Options(40, device="cpu"), settings=settings)


@pytest.fixture(scope="module")
def lines(table):
    return [json.dumps(record) + "\n" for record in records_of(table)]


def decide(capsys, *argv):
    """Run the command; return exit code, the objects on stdout, and stderr."""
    code = cli.main(["decide", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


def name_of(agent) -> str:
    """Return the name of the logger."""
    return load_log_decider(agent).name


@pytest.mark.slow
@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_what_is_logged_is_ingested_verified_and_its_propensities_are_accepted(
    count, agent, lines, tmp_path, capsys
):
    (tmp_path / "in.jsonl").write_text("".join(lines[:count]))
    log = tmp_path / "served.jsonl"
    code, answers, err = decide(
        capsys, agent, tmp_path / "in.jsonl", "--epsilon", 0.3, "--seed", 5, "--log", log
    )
    assert (code, err) == (0, "")
    assert answers.pop() == {"summary": {
        "policy": name_of(agent), "decisions": count, "epsilon": 0.3, "log": str(log),
    }}  # fmt: skip
    # an unlikely candidate is drawn as often as it says
    away = sum(a["choice"] != a["best"] for a in answers)
    assert away == pytest.approx(0.2 * count, abs=4 * (0.16 * count) ** 0.5)
    assert {round(a["propensity"], 9) for a in answers} == {0.8, 0.1}
    with (tmp_path / "served.outcomes.jsonl").open("a") as file:
        for given, answer in zip(lines, answers, strict=False):
            arm = json.loads(given)["candidates"][answer["index"]]
            file.write(json.dumps({"id": answer["id"], "r": (arm["x"] or 0.0) + arm["y"]}) + "\n")
    again = tmp_path / "again"
    assert (
        cli.main(["ingest", "decisions", str(tmp_path / "served.toml"), "--out", str(again)]) == 0
    )
    assert cli.main(["verify", str(again)]) == 0
    told, _ = capsys.readouterr()
    assert f"{count:,} converted again" in told
    manifest = ds.open(again).manifest
    assert manifest.caveats == ()
    assert manifest.provenance["counts"]["in_weights"] == count
    log_again = read_record(again, manifest.provenance)
    assert set(log_again.decisions["logger"]) == {name_of(agent)}
    found = hindcast.ope(again, ["uniform"])
    assert found.support["mean_weight"][0] == pytest.approx(
        1.0, abs=4 * found.support["mean_weight_se"][0]
    )
    assert found.answerable["uniform"] or count < 1000


@pytest.mark.slow
def test_choices_are_those_that_the_log_is_asked_about(folder, agent, table):
    """A decider without exploration takes what `hindcast ope` weighs."""
    opened = ds.open(folder)
    log = read_record(folder, opened.manifest.provenance)
    e = logged_decisions(log)
    wanted = {
        str(agent): scored(load_policy(agent), opened.spec, log, e),
        **{name: target_of(name, log, e) for name in ("lowest:x", "highest:y", "first")},
    }
    records = records_of(table.head(900))
    places = {name: k for k, name in enumerate(log.decisions["id"])}
    for name, target in wanted.items():
        decider = hindcast.load_decider(name, dataset=opened)
        for record in records:
            answer, at = decider.decide(record), log.offsets[places[record["id"]]]
            assert target[at + answer["index"]] == 1.0, (name, record["id"])
            assert answer["propensity"] == 1.0


@pytest.mark.slow
def test_reasons_add_to_the_difference_from_the_other_candidates(agent, table):
    decider = load_log_decider(agent, epsilon=0.5, reasons=1000)
    for record in records_of(table.head(60)):
        answer = decider.decide(record)
        scores, own = np.array(answer["scores"]), answer["index"]
        others = np.delete(scores, own).mean()
        adds = [reason["adds"] for reason in answer["reasons"]]
        assert sum(adds) == pytest.approx(scores[own] - others, abs=1e-5)
        assert sorted(map(abs, adds), reverse=True) == [abs(a) for a in adds]
    alone = {**record, "candidates": record["candidates"][:1]}
    assert decider.decide(alone)["reasons"] == []
    assert decider.decide(alone)["propensity"] == 1.0


@pytest.mark.slow
def test_a_draw_depends_on_seed_and_id_alone(agent, table):
    records = records_of(table.head(300))
    one, again, other = (hindcast.load_decider(agent, epsilon=0.5, seed=s) for s in (1, 1, 2))
    first = [one.decide(record)["index"] for record in records]
    assert [again.decide(record)["index"] for record in reversed(records)] == first[::-1]
    assert [other.decide(record)["index"] for record in records] != first


@pytest.mark.slow
def test_uniform_draws_all_feasible_candidates_alike(folder, table):
    decider = load_log_decider("uniform", folder)
    records = records_of(table.head(1800))
    drawn = Counter(decider.decide(record)["index"] for record in records)
    assert min(drawn.values()) > 150
    assert set(decider.decide(records[0])["probabilities"]) == {1 / 3}


@pytest.mark.slow
def test_a_checkpoint_at_a_temperature_draws_by_a_softmax(agent, table):
    decider = load_log_decider(f"{agent}@0.5")
    answer = decider.decide(records_of(table.head(3))[0])
    weights = np.exp(np.array(answer["scores"]) / 0.5)
    assert answer["probabilities"] == pytest.approx((weights / weights.sum()).tolist())
    assert not decider.certain


@pytest.mark.slow
def test_a_faulty_line_is_answered_by_its_error_and_the_rest_goes_on(
    agent, lines, capsys, monkeypatch
):
    text = lines[0] + "\n\udcff\n" + '{"id": "z", "candidates": []}\n' + lines[1]
    given = io.BytesIO(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given, "utf-8"))
    code, found, err = decide(capsys, agent, "--serve")
    assert code == 2
    assert err.startswith("warning: epsilon is 0, so every choice is certain")
    assert [each.get("id") for each in found] == ["d0", None, None, "d1", None]
    assert found[1]["error"].startswith("stdin, line 3: not JSON")
    assert found[2]["error"] == (
        "stdin, line 4: candidates holds no candidates, expected a list of at least one"
    )
    assert found[-1]["summary"]["errors"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["AGENT", "--margin", "1"], "--margin is for states of a machine"),
        (["saf_easy", "--epsilon", "0.1"], "--epsilon is for logs of decisions"),
        (["lowest:x"], "a rule needs --dataset"),
        (["lowest:z", "--dataset", "LOG"], "lowest:z: the log has no number 'z' of a candidate"),
        (["logged", "--dataset", "LOG"], "logged: this decides for no log of decisions"),
        (["AGENT", "--epsilon", "1.5"], "epsilon is 1.5, expected a number from 0 to 1"),
        (["AGENT", "no.jsonl"], "no.jsonl: no such file"),
    ],
)
def test_what_cannot_decide_is_refused_by_name(argv, said, agent, folder, capsys):
    named = {"AGENT": str(agent), "LOG": str(folder)}
    code, found, err = decide(capsys, *(named.get(word, word) for word in argv))
    assert (code, found) == (2, [])
    assert said in err


def test_a_checkpoint_of_another_problem_needs_no_log():
    with pytest.raises(InputError, match="has no names of a log of decisions"):
        load_log_decider(KTH)


@pytest.mark.slow
def test_a_log_is_continued_after_a_kill_and_never_mixed(agent, folder, table, tmp_path):
    log, records = tmp_path / "served.jsonl", records_of(table.head(12))
    unnamed = [{k: v for k, v in record.items() if k != "id"} for record in records]
    one = load_log_decider(agent, epsilon=0.5, log=log)
    assert [one.decide(record)["id"] for record in unnamed[:2]] == ["0", "1"]
    with log.open("a") as file:
        file.write('{"id": "2", "t": ')
    two = load_log_decider(agent, epsilon=0.1, log=log)
    assert [two.decide(record)["id"] for record in unnamed[2:]] == ["3", "4"]
    found = [line[:12] for line in log.read_text().splitlines()]
    assert found == ['{"id": "0", ', '{"id": "1", ', '{"id": "2", ', '{"id": "3", ', '{"id": "4", ']
    text = (tmp_path / "served.toml").read_text()
    (tmp_path / "served.toml").write_text(text.replace("validation = 0.2", "validation = 0.3"))
    with pytest.raises(InputError, match="choose another --log"):
        load_log_decider(agent, log=log)


@pytest.mark.slow
def test_a_log_without_outcomes_yet_is_read_as_censored(agent, table, tmp_path):
    decider = load_log_decider(agent, epsilon=0.5, log=tmp_path / "served.jsonl")
    for record in records_of(table.head(30)):
        decider.decide(record)
    found = read_log(tmp_path / "served.toml")
    assert (found.counts["decisions"], found.counts["censored"]) == (10, 10)
    with pytest.raises(InputError, match=r"10 have no reward, .* in served\.outcomes\.jsonl"):
        convert(found, tmp_path / "again", "served")


def by_hand(how: dict, context: dict, candidate: dict) -> float:
    """Return the score of a candidate as the sentence of exported weights says."""
    total = how["constant"]
    for side, row in (("context", context), ("candidates", candidate)):
        values = {n: 0.0 if v is None else v for n, v in row.items() if not isinstance(v, str)}
        values |= {f"{n}_missing": float(v is None) for n, v in row.items()}
        for name, levels in how.get(f"{side}_categories", {}).items():
            total += levels.get(row[name], levels.get("*", 0.0))
        for name, v in row.items():
            if isinstance(v, str):
                values[f"{name}={v}"] = 1.0
        for name, weight in how.get(side, {}).items():
            total += weight * values[name]
        for name, weight in how.get(f"{side}_products", {}).items():
            one, other = name.split(" * ")
            total += weight * values.get(one, 0.0) * values.get(other, 0.0)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["toml", "json"])
def test_exported_weights_give_the_scores_of_the_agent(ending, agent, table, tmp_path, capsys):
    out = tmp_path / f"weights.{ending}"
    assert cli.main(["export", str(agent), "--to", "weights", "--out", str(out)]) == 0
    assert "The score of a candidate is `constant` plus" in capsys.readouterr().out
    read = {"toml": tomllib.loads, "json": json.loads}[ending]
    how, decider = read(out.read_text()), load_log_decider(agent)
    assert set(how["candidates_categories"]["kind"]) == {"old", "new"}
    for record in records_of(table.head(150)):
        scores = decider.decide(record)["scores"]
        for candidate, score in zip(record["candidates"], scores, strict=True):
            own = {n: v for n, v in candidate.items() if n != "arm"}
            assert by_hand(how, {"load": record["load"]}, own) == pytest.approx(score, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [KTH, CTC])
def test_weights_of_other_linear_agents_are_those_of_their_raw_features(folder):
    policy = load_policy(Path(folder))
    linear, rng = linear_of(policy), np.random.default_rng(0)
    network = policy.network
    rows = rng.uniform(0.1, 3.0, (50, len(policy.features_candidates)))
    context = rng.uniform(0.1, 3.0, len(policy.features_context))
    scores = policy.batch_scores(context[None], rows, np.array([0, 50]))
    assert linear.scores(context, rows) == pytest.approx(scores, rel=1e-4, abs=1e-4)
    assert len(linear.candidates.names) == network.candidates.size


@pytest.mark.slow
def test_a_network_with_hidden_layers_has_no_weights_to_paste(folder, tmp_path):
    deep = train(folder, "behaviour_cloning", tmp_path / "deep", Options(1, device="cpu"))
    with pytest.raises(InputError, match=r"not linear in its features.*network\.hidden=\[\]"):
        write_weights(deep, tmp_path / "w.toml")
    assert "reasons" not in load_log_decider(deep).decide(records_of(simulated(1, np.add))[0])
