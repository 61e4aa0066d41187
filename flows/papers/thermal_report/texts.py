"""Names of the 2018 report's protocol, and headings and remarks of its tables and figures."""

from typing import Final

from hindcast.flows.papers.results import FigureText, TableText
from hindcast.flows.protocols import Setting

AGENT: Final = "report_dqn"
OFFLINE: Final = "advantage_regression"
ONLINE: Final = "ppo"
RULES: Final = (
    "spread", "min_heat", "earliest_start", "max_usage", "max_distance", "greedy",
    "busy_first_far", "window_greedy", "window_short",
)  # fmt: skip
SETTINGS: Final = {"sizes": "the report's sizes", "tight": "tight deadlines"}
LOG: Final = "behaviour"  # the group of a recipe's behaviours, which make its log
MEASURED: Final = {
    "return": "-", "energy": "server-steps", "peak_heat": "heat", "rejected": "jobs",
    "late": "jobs",
}  # fmt: skip
DRAWN: Final = ("return", "energy", "peak_heat")
WHICH: Final = ("chosen", "others")
SERIES: Final = {"chosen": "chosen", "others": "not chosen"}  # as the report calls its lines
QUANTITIES: Final = {"efficiency": "-", "distance": "grid", "usage": "fraction"}
FIGURES: Final = {"efficiency": "figure 7", "distance": "figure 8", "usage": "usage"}
RANKED: Final = {
    "rank_correlation": "-", "rank_correlation_new": "-", "regret_at_1": "return", "type_1": "-",
    "type_2": "-",
}  # fmt: skip
ESTIMATORS: Final = ("snis", "dm", "dr", "mwl", "tempered")  # shown one by one


def table_texts(setting: Setting) -> dict[str, TableText]:
    """Return the texts of the tables."""
    few = " Hardly trained." if setting.quick else ""
    means = f"Means over minibatches of 500 logged decisions and over training seeds.{few}"
    lines = f"{means} The report draws lines without a table: its numbers are read from the figure."
    return {
        "configuration": TableText("Sizes of the simulation", "section IV.1"),
        "figure 4": TableText(
            "Figure 4: the printed record", "Figure 4, section IV.1",
            "Alpha and beta are not in the text; 5 and -1000 give the reward. The report adds 1e-7 "
            "to usage and energy in the efficiency, which is the rest of the reward.",
        ),
        "figure 7": TableText(
            "Figure 7: efficiency of chosen and other servers", "Figure 7, section IV.3", lines
        ),
        "figure 8": TableText(
            "Figure 8: distance of chosen and other servers", "Figure 8, section IV.3",
            f"{lines} They cannot be distances on the grid: whichever server is chosen, chosen + 5 "
            "times others is the sum of all six distances, which is larger.",
        ),
        "usage": TableText("Usage of chosen and other servers", "", means),
        "gaps": TableText(
            "Chosen minus other servers", "",
            "Logged: after the last step of the training, at logged decisions. Played: in episodes "
            "of the test windows.",
        ),
        **{
            f"simulator, {title}": TableText(
                f"In the simulator: {title}", "",
                f"The report did not play its agent. behaviour: rows are the policies that made "
                f"the log of the recipe, and {LOG} is their mixture.{few}",
            )
            for title in SETTINGS.values()
        },
        "estimators": TableText(
            "Do off-policy estimates rank the policies?", "",
            "Rank correlation with returns in the simulator, on validation "
            "windows of the log with tight deadlines.",
        ),
        "estimates": TableText(
            "Off-policy estimates and returns in the simulator", "",
            "Rules explore as in the log, here and in the simulator. Intervals are over windows. "
            "Estimators that may be biased have none, nor have estimates of which few effective "
            "episodes are left.",
        ),
        "beside": TableText("Beside the paper's columns", "", f"Tight deadlines.{few}"),
    }  # fmt: skip


def figure_texts() -> dict[str, FigureText]:
    """Return the texts of the figures."""
    labels = {
        "efficiency": "mean efficiency (-)", "distance": "mean distance from the centre (grid)",
        "usage": "mean usage (fraction)",
    }  # fmt: skip
    hollow = " Hollow markers are the ends of the paper's lines, read from the figure."
    captions = {
        "efficiency": "A server that is off has efficiency 1." + hollow,
        "distance": hollow.strip() + " The paper's numbers are not in units of the grid.",
        "usage": "Before the decision.",
    }
    texts = {
        figure: FigureText(
            f"{figure.capitalize()}: chosen servers ({AGENT}) and others", "lines",
            "training (gradient steps)", labels[what],
            f"{figure.capitalize()}, section IV.3" if what != "usage" else "", captions[what],
        )
        for what, figure in FIGURES.items()
    }  # fmt: skip
    texts |= {
        f"{figure}, played": FigureText(
            f"{figure.capitalize()}, in played episodes", "bars", "policy", labels[what], "",
            "Before the decision, mean over the decisions of the test windows.",
        )
        for what, figure in FIGURES.items()
    }  # fmt: skip
    texts |= {
        metric.replace("_", " "): FigureText(
            f"{metric.replace('_', ' ').capitalize()} in the simulator", "bars", "policy",
            f"{metric.replace('_', ' ')} ({MEASURED[metric]})", "", "Means over test windows.",
        )
        for metric in DRAWN
    }  # fmt: skip
    return texts | {
        "estimates": FigureText(
            "Off-policy estimates", "scatter", "return in the simulator (-)",
            "estimated return (-)", "", "A point per policy and estimator.",
        ),
    }  # fmt: skip
