"""Estimators for single logged decisions, on plain arrays.

    e = LoggedDecisions.of(lengths, chosen, propensity, reward)
    target = uniform(e)                       # (C,) probabilities of the policy asked about
    values(e, target)["snis"].value

`LoggedDecisions` says what the arrays are; `values` what the estimators are; `propensity_tests` if
the propensities can be those of the choices; `support` if the log can answer at all.
"""
