"""DeepJS: the published network on jobs of the Alibaba trace of 2017."""

from typing import Final

from hindcast.flows.calibrations import Calibration

SLIDING: Final = Calibration(
    f"{__name__}.sliding:table",
    "DeepJS, Figure 4: cost of each window to an agent before it is trained on the window "
    "(train-online --checkpoint-every)",
    reads=("recipe", "overrides", "policies", "last"),
    folders=("RUN",),
    needs="recipe",
)
CORRELATION: Final = Calibration(
    f"{__name__}.fitness_correlation:correlation_table",
    "DeepJS, Figure 5: correlation of the scores of two agents for the same candidates, those of "
    "episodes of A",
    reads=("recipe", "overrides", "split", "windows"),
    folders=("A", "B"),
    needs="recipe",
)
POINTS: Final = Calibration(
    f"{__name__}.fitness_correlation:points_table",
    "the two scores of 500 of these candidates",
    reads=("recipe", "overrides", "split", "windows", "seed"),
    folders=("A", "B"),
    needs="recipe",
)
