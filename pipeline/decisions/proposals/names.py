"""Names of a log of decisions: what their words say, and those that are left."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

Fits = Callable[[str], bool]  # whether the values of a name fit

# Words by what they name, the surest first. A column matches if it is the word, or has it as one of
# its parts: `latency_ms` is a cost.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "decision": ("decision_id", "decision", "event_id", "eventid", "request_id", "round_id",
                 "impression_id", "id", "round", "query_id", "qid"),
    "session": ("session", "session_id", "conversation", "conversation_id", "visit", "episode",
                "trajectory"),
    "unit": ("unit", "user", "user_id", "customer", "customer_id", "device", "device_id"),
    "time": ("time", "timestamp", "ts", "datetime", "date", "created_at", "served_at",
             "seen_at", "logged_at", "decided_at", "occurred_at", "at", "t"),
    "candidate": ("candidate", "candidate_id", "arm", "arm_id", "item_id", "item", "model",
                  "option", "variant", "action_id", "action"),
    "chosen": ("chosen", "selected_model", "selected", "taken", "picked", "served", "action",
               "choice", "a", "selection", "is_chosen", "is_selected"),
    "feasible": ("feasible", "available", "eligible", "allowed", "valid", "healthy", "mask"),
    "sampled": ("proposal_model", "proposal", "proposed", "sampled", "drawn", "sampled_model"),
    "overridden": ("overridden", "override", "was_overridden", "is_overridden"),
    "propensity": ("propensity", "pscore", "propensity_score", "action_prob", "act_prob",
                   "probability", "prob", "p", "chosen_prob", "logging_prob"),
    "probabilities": ("probabilities", "probs", "propensities", "action_probs", "p"),
    "reward": ("reward", "r", "click", "clicked", "outcome", "quality", "score", "rating"),
    "cost": ("cost", "latency", "loss", "regret", "latency_ms", "duration"),
    "keep": ("keep_prob", "keep", "keep_probability", "sampling_rate"),
    "drop": ("pdrop", "drop_prob", "drop"),
    "logger": ("logger", "model_version", "policy_version", "logging_policy", "policy"),
    "draws": ("n_samples", "draws", "n_draws", "num_samples", "samples"),
}  # fmt: skip


def any_name(_name: str) -> bool:
    """Return True: values do not matter."""
    return True


class Names:
    """Names of a log that are left, and the columns of the mapping that others have become."""

    def __init__(self, left: list[str]) -> None:
        self.left, self.columns = left, dict[str, str]()

    def take(self, what: str, fits: Fits = any_name) -> str:
        """Return the name that a word of `what` fits and remove it from those left; "" if none."""
        found = find(what, self.left, fits)
        if found:
            self.left.remove(found)
        return found

    def put(self, what: str, fits: Fits = any_name) -> str:
        """Take a name and make it the column `what`."""
        found = self.take(what, fits)
        if found:
            self.columns[what] = found
        return found

    def reward(self, reward: Fits, cost: Fits) -> tuple[str, str]:
        """Put the reward, or else the cost; return both."""
        found = self.put("reward", reward)
        return found, "" if found else self.put("cost", cost)

    @property
    def units(self) -> list[str]:
        """Columns whose values several decisions may share."""
        return [name for name in ("session", "unit") if name in self.columns]


def find(what: str, names: Iterable[str], fits: Fits = any_name) -> str:
    """Return the first name that a word of `what` fits: as a whole, then as one of its parts."""
    known = list(names)
    for word in WORDS[what]:
        for name in known:
            if name.rpartition(".")[2].lower() == word and fits(name):
                return name
    for word in WORDS[what]:
        for name in known:
            parts = re.split(r"[^a-z0-9]+", name.rpartition(".")[2].lower())
            if (
                len(word) > 2
                and (word in parts or name.lower().startswith(f"{word}_"))
                and fits(name)
            ):
                return name
    return ""
