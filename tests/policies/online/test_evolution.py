"""Tests of CMA-ES: it finds optima of functions, also ill-conditioned ones, and can be resumed."""

import numpy as np
import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import evolution
from hindcast.policies.online.evolution import Config, Distribution, as_weights, learner, mean_ranks
from hindcast.policies.online.problem import Sampling
from tests.policies.play import CPU, SPEC, network_of


def descend(function, start, generations, *, diagonal=False, population=12):
    rng = np.random.default_rng(0)
    search = Distribution(np.array(start, float), 0.5, population, diagonal=diagonal)
    for _ in range(generations):
        y = search.draw(population, rng)
        tried = search.mean.numpy() + float(search.step) * y
        order = np.argsort([function(x) for x in tried], kind="stable")
        search.move(y[order[: population // 2]])
    return search


SCALES = 10.0 ** np.linspace(0, 3, 6)
TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
FUNCTIONS = {
    "sphere": lambda x: float(x @ x),
    "scaled": lambda x: float(SCALES**2 @ x**2),
    "turned": lambda x: float(SCALES**2 @ (TURN @ x) ** 2),
}


@pytest.mark.parametrize(
    ("name", "diagonal", "generations"),
    [("sphere", False, 120), ("sphere", True, 120), ("scaled", True, 250), ("turned", False, 350)],
)
def test_the_optimum_of_a_function_is_found(name, diagonal, generations):
    """It learns axes a thousand times longer than others, and turned axes by a full covariance."""
    start = np.full(6, 2.0)
    found = descend(FUNCTIONS[name], start, generations, diagonal=diagonal)
    assert FUNCTIONS[name](found.mean.numpy()) < 1e-8 * FUNCTIONS[name](start)


def test_the_covariance_becomes_the_inverse_of_the_curvature():
    """On a quadratic, the covariance has the axes of the level lines, up to a factor."""
    found = descend(FUNCTIONS["scaled"], np.full(6, 2.0), 350)
    size = np.sqrt(np.diag(found.c.numpy())) * SCALES
    assert size.max() / size.min() < 4.0


def test_choices_depend_on_ranks_only():
    """A monotone function of the fitness gives the same search, bit for bit."""
    one = descend(FUNCTIONS["turned"], np.ones(6), 20)
    other = descend(lambda x: np.log(FUNCTIONS["turned"](x)), np.ones(6), 20)
    assert np.array_equal(one.mean.numpy(), other.mean.numpy())


def test_weights_are_cut_in_the_order_of_the_network():
    network = network_of(SPEC, NetworkSettings(hidden=(4,), quadratic=False))
    sizes = [int(np.prod(shape)) for shape in network.shapes.values()]
    flat = np.arange(float(sum(sizes)))
    cut = as_weights(network, flat)
    assert {name: w.shape for name, w in cut.items()} == network.shapes
    assert np.array_equal(np.concatenate([w.ravel() for w in cut.values()]), flat)


def test_a_network_too_large_for_a_full_covariance_is_refused(tiny_recipe, play_problem):
    problem = play_problem(tiny_recipe)
    network = network_of(problem.spec, NetworkSettings(hidden=(64, 64)))
    with pytest.raises(RecipeError, match='covariance = "diagonal"'):
        learner(problem, Config(), network, None, CPU)
    learner(problem, Config(covariance="diagonal"), network, None, CPU)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"step": 0.0}, "above 0"), ({"sampling": Sampling(trajectories=3)}, "at least 4")],
    ids=["step", "population"],
)
def test_settings_that_make_no_search_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        Config(**settings)


def test_ranks_count_windows_and_not_their_size():
    """Best on two of three windows wins over the best mean, and equal returns share their rank."""
    returns = np.array([[-1.0, -1.0, -900.0], [-2.0, -2.0, -800.0], [-3.0, -2.0, -850.0]])
    np.testing.assert_allclose(mean_ranks(returns), [7 / 3, 6.5 / 3, 4.5 / 3])
    assert returns.mean(axis=1).argmax() == 1


@pytest.mark.parametrize("order", ["given", "drawn"])
def test_windows_in_the_order_of_the_split_or_in_a_drawn_one(
    order, tiny_recipe, play_problem, monkeypatch
):
    """With drawn order, each pass plays every window equally often and keeps the same groups."""
    problem = play_problem(tiny_recipe)
    played: list[list[int]] = []
    plain = evolution.greedy

    def greedy(problem, network, weights, windows, iteration):
        played.append(list(windows))
        return plain(problem, network, weights, windows, iteration)

    monkeypatch.setattr(evolution, "greedy", greedy)
    sampling = Sampling(trajectories=4, windows=3, stay=1, baseline="none")
    config = Config(sampling=sampling, order=order)
    made = learner(problem, config, network_of(problem.spec, config.network), None, CPU)
    for iteration in range(1, 5):
        made.step(iteration)
    assert [w for one in played[::4][:2] for w in one] == [w for one in played[8::4] for w in one]
    found = [w for one in played[::4][:2] for w in one]
    assert sorted(found) == list(problem.train)
    assert (found == list(problem.train)) == (order == "given")
