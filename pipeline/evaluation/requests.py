"""Policies of `queue` that read no requested time.

All others do: by their formula, by the predictions, which a request bounds, or by the reservation
of EASY and conservative backfilling, which lasts as long as the running jobs requested. Where the
request is the run time, for want of another one, these know the future.
"""

from typing import Final

# Without backfilling, nobody starts beside the reservation, or there is none.
_FORMS: Final = ("", "_greedy")
_RULES: Final = ("fcfs", "smallest", "largest")  # whose priorities have none of r, p and u
_WITHOUT_REQUESTS: Final = frozenset({*(r + form for r in _RULES for form in _FORMS), "recorded"})


def reads_requests(policy: str) -> bool:
    """Return whether a policy of this name depends on the requested times of jobs."""
    return policy not in _WITHOUT_REQUESTS
