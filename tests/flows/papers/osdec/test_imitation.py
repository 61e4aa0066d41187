"""Tests of imitation by slot scores: likelihood of choices, agreement with a rule, later play."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.flows.papers.osdec.imitation import imitator, log_probabilities_of, representable
from hindcast.flows.papers.osdec.policy import SlotScoresPolicy
from hindcast.flows.papers.osdec.torch_network import SlotNetwork
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.decisions import Columns, Decisions
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.candidate_scorer import FILL
from hindcast.policies.networks.checkpoint import Trained, load_policy, read_description
from hindcast.policies.online.imitation import Imitation, distributions
from hindcast.policies.registry import behaviours
from hindcast.policies.training import losses as module
from hindcast.policies.training.learner import Task
from hindcast.policies.training.monitoring import make_probe_set, measure
from tests.folders import content
from tests.policies.trainings import train_online

SMALL = ("config.horizon=12", 'split.train="200..203"', 'split.validation="80..80"')
LOG = ("config.horizon=24", 'split.train="0..11"', 'split.validation="80..80"',
       'split.test="100..100"')  # fmt: skip
STEPS = 70
STILL = 1e-12  # a step size that moves nothing


def logged_by(rule, folder):
    """Return a dataset of one rule."""
    recipe = load_recipe("deferrable-base-v1", LOG)
    own = tuple(b for b in recipe.behaviours if b.policy == rule)
    recipe = dataclasses.replace(recipe, behaviours=own)
    build(recipe, behaviours(recipe), folder)
    return folder


@pytest.fixture(scope="module")
def fifo(tmp_path_factory):
    return logged_by("fifo", tmp_path_factory.mktemp("log") / "fifo")


def recipe_of(**settings):
    own = {
        "network": {"width": 12, "encoder": "pointer", "auxiliary": "both"},
        "sampling": {"trajectories": 2, "windows": 1},
        "learning_rate": STILL, "value_learning_rate": STILL,
    }  # fmt: skip
    online = OnlineRecipe("score_ppo", 2, {**own, **settings})
    return dataclasses.replace(load_recipe("deferrable-osdec-online", SMALL), online=online)


@pytest.fixture(scope="module")
def imitated(fifo, tmp_path_factory):
    """Return the result of imitating fifo and of two iterations that change no mean."""
    out = tmp_path_factory.mktemp("imitated") / "a"
    return train_online(recipe_of(), out=out, imitation=Imitation(fifo, STEPS))


def whole_decisions(folder, split):
    dataset = ds.open(folder)
    found = sample_decisions(
        dataset,
        split,
        np.random.default_rng(0),
        Columns(200, more=("probabilities",)),
        per_episode=60,
    )
    return found.take(np.flatnonzero(found.mask.sum(axis=1) > 1)), dataset.spec


def agreement(policy, decisions, spec):
    """Return the share of decisions in which the policy chooses the logged candidate."""
    trained = Trained("x", spec, policy.network, policy.weights, {}, 0, 0)
    return measure(trained, make_probe_set(decisions))["log_agreement"]


def untrained(network, spec):
    weights = SlotNetwork(network, np.random.default_rng(0)).weights()
    return SlotScoresPolicy("u", network, weights, spec.context, spec.candidates)


@pytest.mark.slow
def test_it_agrees_with_the_rule_that_it_imitates(imitated, fifo):
    """On unseen windows they differ only on ties and in the 5 % of choices that explore."""
    decisions, spec = whole_decisions(fifo, "validation")
    policy = load_policy(imitated / "imitation")
    assert agreement(untrained(policy.network, spec), decisions, spec) < 0.35
    assert agreement(policy, decisions, spec) > 0.75
    told = read_description(imitated / "imitation")["training"]["metrics"]
    last = [m["value"] for m in told if m["metric"] == "validation_agreement"][-1]
    assert last > 0.75


@pytest.mark.slow
def test_play_begins_at_its_weights(imitated):
    """All weights are taken over, also the untrained head of the deviation."""
    begun, taught = (load_policy(p).weights for p in (imitated, imitated / "imitation"))
    for name in begun:
        if name.split(".")[0] not in {"past", "shared", "task", "prediction"}:
            np.testing.assert_allclose(begun[name], taught[name], atol=1e-6)
    network = load_policy(imitated).network
    drawn = SlotNetwork(network, generator(0, "imitation weights")).weights()
    for part in ("weight", "bias"):
        np.testing.assert_array_equal(taught[f"deviation.{part}"], drawn[f"deviation.{part}"])
        assert (taught[f"mean.{part}"] != drawn[f"mean.{part}"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["mlp", "attention"])
def test_what_the_auxiliary_module_says_is_not_listened_to(encoder, fifo, slot_net):
    """Play may change the auxiliary module's weights in any way: the scores stay."""
    decisions, spec = whole_decisions(fifo, "train")
    _, network, _ = slot_net(encoder=encoder, auxiliary="both")
    learner = imitator(Task(decisions, spec, 2, 0), None, network, distributions(decisions), None)
    for number in (1, 2):
        learner.step(number)
    weights = dict(learner.weights())
    other = {n: w + 1.0 if n.split(".")[0] in {"past", "shared", "task"} else w
             for n, w in weights.items()}  # fmt: skip
    w = make_probe_set(decisions, 20)
    one, two = (
        SlotScoresPolicy("s", network, some, spec.context, spec.candidates).batch_scores(
            w.context, w.candidates, w.offsets, feasible=w.feasible
        )
        for some in (weights, other)
    )
    np.testing.assert_array_equal(one, two)


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_interrupted_while_imitating_it_ends_in_the_same_bytes(fifo, tmp_path, monkeypatch):
    draw, asked = module.draw_rows, []

    def stop_at_6(*arguments):
        asked.append(1)
        if len(asked) == 6:
            raise Interrupted
        return draw(*arguments)

    def again(out):
        return train_online(recipe_of(), out=tmp_path / out, imitation=Imitation(fifo, 10),
                            resume_s=0.0)  # fmt: skip

    whole = content(again("a"))
    with monkeypatch.context() as patched:
        patched.setattr(module, "draw_rows", stop_at_6)
        with pytest.raises(Interrupted):
            again("b")
    assert (tmp_path / "b" / "imitation" / "training.safetensors").is_file()
    assert content(again("b")) == whole


def test_chances_by_hand():
    """Of jobs with scores log 1 to log 4, the third was started and the last does not fit."""
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.0]]).log()
    fits, refused, close = (
        torch.tensor([row], dtype=torch.bool)
        for row in ([1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1])
    )
    log_probabilities = log_probabilities_of(scores, fits, refused, close)
    np.testing.assert_allclose(log_probabilities.exp()[0], [1 / 7, 2 / 7, 0, 0, 4 / 7], rtol=1e-6)
    alone = log_probabilities_of(scores, fits | refused, refused & ~refused, close)
    np.testing.assert_allclose(alone.exp()[0], [1 / 7, 2 / 7, 0, 4 / 7, 0], rtol=1e-6)
    assert alone[0, 4] == FILL


def test_chances_of_decisions_are_those_of_scores_drawn_once_a_slot():
    """With Gumbel noise, they equal the frequency of these starts in this order."""
    scores, cores, free = np.array([0.4, -0.3, 1.1]), np.array([1, 2, 2]), 3
    rng = np.random.default_rng(0)
    found: dict[tuple[int, ...], int] = {}
    for _ in range(20_000):
        left, started = free, []
        for job in np.argsort(-(scores + rng.gumbel(size=3))):
            if cores[job] > left:
                break
            left -= cores[job]
            started.append(int(job))
        found[tuple(started)] = found.get(tuple(started), 0) + 1
    total = 0.0
    for order, count in found.items():
        waits, left, log_p = np.ones(3, np.bool_), free, 0.0
        for choice in (*order, 3):
            fits = waits & (cores <= left)
            masks = [np.append(m, False)[None] for m in (fits, waits & ~fits)]
            close = np.array([[False] * 3 + [True]])
            given = [torch.from_numpy(m) for m in (*masks, close)]
            if not waits.any():
                break
            log_p += float(log_probabilities_of(torch.from_numpy(np.append(scores, 0.0))[None],
            *given)
                           [0, choice])  # fmt: skip
            if choice < 3:
                waits[choice], left = False, left - cores[choice]
        assert count / 20_000 == pytest.approx(np.exp(log_p), abs=0.015)
        total += np.exp(log_p)
    assert total == pytest.approx(1.0)


def crafted(kinds_of, shown):
    """Return decisions of rows "f" (fits), "r" (does not), "c" (close), "." (padding)."""
    candidates = np.zeros((len(kinds_of), len(kinds_of[0]), 11), np.float32)
    mask = np.zeros(candidates.shape[:2], np.bool_)
    for b, kinds_ in enumerate(kinds_of):
        for i, kind in enumerate(kinds_):
            candidates[b, i, 7], candidates[b, i, 9] = kind in "fr", kind == "c"
            mask[b, i] = kind in "fc"
    found = Decisions.__new__(Decisions)
    for field in dataclasses.fields(Decisions):
        object.__setattr__(found, field.name, None)
    for name, value in {"candidates": candidates, "mask": mask,
                        "choice": np.zeros(len(mask), np.int64)}.items():  # fmt: skip
        object.__setattr__(found, name, value)
    return found, np.array(shown, np.float32)


def test_a_close_while_everything_fits_is_left_out():
    decisions, shown = crafted(
        ["ffc.", "ffc.", "frc.", "ffrc"],
        [[0.0, 0.1, 0.9, 0.0], [0.6, 0.2, 0.2, 0.0], [0.2, 0.0, 0.8, 0.0], [0.5, 0.2, 0.0, 0.3]],
    )
    kept, wanted = representable(decisions, shown)
    assert kept.mask.tolist() == decisions.mask[1:].tolist()
    expected = [[0.75, 0.25, 0, 0], [0.2, 0, 0.8, 0], [0.5, 0.2, 0, 0.3]]
    np.testing.assert_allclose(wanted, expected, rtol=1e-6)


def test_a_log_that_only_closes_is_refused(slot_net, slot_problem):
    _, network, _ = slot_net()
    decisions, shown = crafted(["ffc"], [[0.0, 0.0, 1.0]])
    with pytest.raises(DatasetError, match="only close slots"):
        imitator(Task(decisions, slot_problem.spec, 1, 0), None, network, shown, None)
