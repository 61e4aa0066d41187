"""Tests of trainings on logs of decisions, which no simulator can judge."""

import numpy as np
import polars as pl
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.scoring import scored
from hindcast.pipeline.decisions.targets import target_of
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.notes import telling
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.offline import read_config
from hindcast.policies.offline.tasks import sample
from hindcast.policies.offline.training import train
from hindcast.policies.training.delivery.verdict import rule_policy
from hindcast.policies.training.delivery.weighed import judge_of
from hindcast.policies.training.job import Options

MAPPING = {
    "kind": "decisions", "shape": "rows",
    "columns": {"decision": "id", "time": "t", "candidate": "arm", "chosen": "chosen",
                "probability": "p", "reward": "r"},
    "context": {"numbers": ["load"]},
    "candidates": {"numbers": ["x", "y"], "categories": ["kind"]},
}  # fmt: skip
QUICK = Options(60, device="cpu")


def simulated(decisions, reward, *, missing=0.0, sharp=0.0):
    """Return a log of three candidates, drawn by exp(sharp x); the reward is that of (x, y)."""
    rng = np.random.default_rng(7)
    x, y = rng.uniform(size=(2, decisions, 3)).round(3)
    p = np.exp(sharp * x)
    p /= p.sum(axis=1, keepdims=True)
    taken = (rng.uniform(size=(decisions, 1)) > p.cumsum(axis=1)).sum(axis=1)
    unknown = rng.uniform(size=x.shape) < missing
    own = np.arange(decisions)
    r = reward(x, y)[own, taken] + rng.normal(0.0, 0.1, decisions)
    return pl.DataFrame({
        "id": np.repeat([f"d{d}" for d in own], 3), "t": np.repeat(own * 60.0, 3),
        "load": np.repeat(rng.uniform(size=decisions), 3), "arm": ["a", "b", "c"] * decisions,
        "kind": ["new", "old", "old"] * decisions,
        "x": pl.Series(np.where(unknown, np.nan, x).ravel()).fill_nan(None), "y": y.ravel(),
        "p": p.ravel(), "chosen": (taken[:, None] == np.arange(3)).astype(int).ravel(),
        "r": np.repeat(r, 3),
    })  # fmt: skip


def made(tmp_path, table, mapping=MAPPING):
    return convert(read_log(table, mapping), tmp_path / "log", "log").folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    table = simulated(1200, lambda x, y: x + y, missing=0.1)
    return made(tmp_path_factory.mktemp("log"), table)


def verdict_of(out):
    delivered = out / "delivered"
    place = delivered if delivered.is_dir() else out
    return read_description(place)["training"]["delivered"]


def test_learners_read_zero_for_a_missing_number_and_no_identifier(folder):
    opened = ds.open(folder)
    names = [f.name for f in opened.spec.candidates]
    config = read_config("cql")
    found = sample(opened, find_agent("cql"), config, 0, "train", 1 << 24, None)
    lacking = found.candidates[..., names.index("x_missing")] == 1.0
    assert lacking.any()
    assert (found.candidates[lacking][:, names.index("x")] == 0.0).all()
    assert np.isfinite(found.next_candidates).all()
    hidden = {n for i, n in enumerate(names) if i not in opened.spec.learned_candidates}
    assert hidden == {"kind", "candidate"}
    assert found.terminated.all()
    assert found.to_go == pytest.approx(found.reward)


@pytest.mark.slow
def test_an_agent_that_is_clearly_better_is_delivered(folder, tmp_path):
    train(folder, "cql", tmp_path / "a", Options(150, device="cpu"))
    verdict = verdict_of(tmp_path / "a")
    assert verdict["delivered"] == "agent"
    assert verdict["metric"] == "dr"
    assert verdict["low"] > 0.0
    assert "the agent is better" in verdict["why"]
    assert verdict["rule"].startswith("highest:")


@pytest.mark.slow
def test_a_rule_that_is_better_than_the_log_stands_in_for_an_agent_that_is_not(tmp_path):
    table = simulated(1000, lambda x, _: -x, missing=0.1)
    folder = made(tmp_path, table)
    train(folder, "behaviour_cloning", tmp_path / "a", QUICK)
    verdict = verdict_of(tmp_path / "a")
    assert (verdict["delivered"], verdict["rule"]) == ("rule", "lowest:x")
    assert "lowest:x is delivered" in verdict["why"]
    names = [str(tmp_path / "a" / "delivered"), "lowest:x"]
    one, two = (
        hindcast.ope(folder, [n], split="test").estimates.filter(estimator="dr") for n in names
    )
    assert one["value"][0] == pytest.approx(two["value"][0], abs=1e-9)


@pytest.mark.slow
def test_a_policy_whose_weights_saw_no_failure_is_not_better_for_that(tmp_path):
    """No decision that took the lowest y failed, so its failures are not known."""
    table = simulated(1200, lambda x, y: x)
    lowest = pl.col("y") == pl.col("y").min().over("id")
    spared = (lowest & (pl.col("chosen") == 1)).any().over("id")
    fails = ~spared & (pl.col("id").str.slice(1).cast(pl.Int64) % 40 < 2)
    log = made(tmp_path, table.with_columns(r=-fails.cast(pl.Float64)))
    judge = judge_of(ds.open(log))
    others = {"logged": judge._others("")["logged"]}
    target = target_of("lowest:y", judge.log, judge.logged)
    part = judge.validation
    assert part.compare(part.value(target), others["logged"], "logged").low > 0.0
    hardest, why = judge._against(target, others)
    assert "0 non-zero rewards carry weight, fewer than 10" in why
    assert np.isnan(hardest.low)


@pytest.mark.slow
def test_the_log_itself_stays_where_validation_cannot_answer(tmp_path, capsys):
    folder = made(tmp_path, simulated(40, lambda x, y: x + y))
    command = f"train {folder} --agent cql --steps 20 --device cpu --out {tmp_path / 'a'}"
    assert main(command.split()) == 0
    assert "the log's own policy stays" in capsys.readouterr().out
    assert not (tmp_path / "a" / "delivered").exists()
    verdict = verdict_of(tmp_path / "a")
    assert verdict["delivered"] == "log"
    assert "effective decisions, fewer than 10" in verdict["why"]
    before = (tmp_path / "a" / "checkpoint.json").read_bytes()
    train(folder, "cql", tmp_path / "a", Options(20, device="cpu", gate="log"))
    assert (tmp_path / "a" / "checkpoint.json").read_bytes() == before


@pytest.mark.slow
def test_propensities_that_cannot_be_right_judge_no_agent(tmp_path):
    table = simulated(600, lambda x, y: x + y, sharp=1.0).with_columns(p=pl.lit(None, pl.Float64))
    without = {**MAPPING, "propensity": {"kind": "none"}}
    folder = made(tmp_path, table.drop("p"), {
        **without, "columns": {k: v for k, v in MAPPING["columns"].items() if k != "probability"},
    })  # fmt: skip
    verdict = judge_of(ds.open(folder)).judge(rule_policy(ds.open(folder).spec, "highest:x"))
    assert verdict.delivered == "log"
    assert "no propensities" in verdict.why
    with pytest.raises(DatasetError, match="advantage_regression reads the probabilities"):
        train(folder, "advantage_regression", tmp_path / "a", QUICK)


@pytest.mark.slow
def test_rewards_that_are_lost_by_what_was_taken_judge_no_agent(tmp_path):
    table = simulated(600, lambda x, y: x + y)
    lost = (pl.col("arm") == "a") & (pl.col("id").str.slice(1).cast(int) % 2 == 0)
    taken = pl.col("id").is_in(table.filter((pl.col("chosen") == 1) & lost)["id"].implode())
    folder = made(tmp_path, table.with_columns(r=pl.when(~taken).then("r")))
    verdict = judge_of(ds.open(folder)).judge(rule_policy(ds.open(folder).spec, "highest:x"))
    assert verdict.delivered == "log"
    assert "cannot be compared with the log: rewards are lost by what was taken" in verdict.why


def test_a_rule_as_a_network_takes_no_missing_number(folder):
    opened = ds.open(folder)
    judge = judge_of(opened)
    for rule in ("lowest:x", "highest:x", "first", "lowest:y"):
        played = scored(rule_policy(opened.spec, rule), opened.spec, judge.log, judge.logged)
        assert np.array_equal(played, target_of(rule, judge.log, judge.logged)), rule


@pytest.mark.slow
def test_a_sweep_has_the_gate_of_such_logs(folder, tmp_path):
    command = f"train {folder} --agent behaviour_cloning --seeds 0 1 --steps 5 --out {tmp_path}"
    assert main(command.split()) == 0
    for run in (tmp_path / "runs").iterdir():
        assert verdict_of(run)["metric"] == "dr"


@pytest.mark.parametrize("gate", ["simulator", "folds"])
def test_gates_that_play_are_refused_by_name(folder, tmp_path, gate, capsys):
    command = f"train {folder} --agent cql --gate {gate} --out {tmp_path / 'a'}"
    assert main(command.split()) == 2
    assert f"--gate {gate} plays the episodes" in capsys.readouterr().err
    with pytest.raises(InputError, match=rf"--gate {gate} .* expected --gate log"):
        train(folder, "cql", tmp_path / "a", Options(5, device="cpu", gate=gate))


@pytest.mark.parametrize(
    ("agent", "lacks"),
    [("response_surface", "a simulator plays"), ("trajectory_preference", "episodes of one unit"),
     ("preference_ensemble", "episodes of one unit"), ("report_dqn", "for thermal")],
)  # fmt: skip
def test_agents_that_need_more_are_refused_by_name(folder, tmp_path, agent, lacks):
    with pytest.raises(InputError, match=rf"{agent} .*{lacks}"):
        train(folder, agent, tmp_path / "a", QUICK)


def test_a_refusal_is_not_preceded_by_cautions_of_the_log(folder, tmp_path):
    selected, told = hindcast.filter(folder, tmp_path / "some", episodes="0..899").folder, []
    with telling(told.append), pytest.raises(InputError, match="response_surface"):
        train(selected, "response_surface", tmp_path / "a", QUICK)
    assert not told
    with telling(told.append), pytest.raises(InputError, match="--gate folds"):
        train(selected, "cql", tmp_path / "a", Options(5, device="cpu", gate="folds"))
    assert told[0].startswith("warning: ")


@pytest.mark.slow
def test_a_trained_agent_is_asked_about_its_test_split(folder, tmp_path):
    train(folder, "behaviour_cloning", tmp_path / "a", QUICK)
    found = hindcast.ope(folder, [tmp_path / "a", "uniform"])
    splits = dict(found.support.select("policy", "split").iter_rows())
    assert splits == {str(tmp_path / "a"): "test", "uniform": "all"}
    for split in ("train", "all"):
        with pytest.raises(InputError, match="this agent was trained on"):
            hindcast.ope(folder, [tmp_path / "a"], split=split)
    assert load_policy(tmp_path / "a").name == "behaviour_cloning"


@pytest.mark.slow
def test_an_agent_is_not_asked_about_decisions_that_it_learned_from(folder, tmp_path):
    """After a division, an agent of the whole log is refused; one of the train part is not."""
    plain, whole = hindcast.split(folder, tmp_path / "p"), hindcast.open_dataset(folder)
    divided = hindcast.split(folder, tmp_path / "q", by="hash", validation=0.2, test=0.4)
    other = hindcast.split(folder, tmp_path / "r", by="time", validation=0.2, test=0.4)
    trained = {"whole": whole, "plain": plain["train"], "divided": divided["train"]}
    for name, dataset in trained.items():
        train(dataset.folder, "behaviour_cloning", tmp_path / name, QUICK)

    def split_of(name, dataset):
        return hindcast.ope(dataset, [tmp_path / name]).support["split"].to_list()

    assert split_of("plain", whole) == ["test"]
    assert split_of("plain", plain["test"]) == ["test"]
    assert split_of("divided", whole) == ["test"]
    assert split_of("divided", divided["test"]) == ["test"]
    both = hindcast.merge([divided["train"], divided["test"]], tmp_path / "m")
    assert split_of("divided", both) == ["test"]
    for name, dataset in (
        ("whole", divided["test"]), ("whole", both), ("plain", divided["test"]),
        ("divided", other["test"]),
    ):  # fmt: skip
        for split in (None, "test"):
            with pytest.raises(InputError, match="may have learned from these decisions"):
                hindcast.ope(dataset, [tmp_path / name], split=split)
