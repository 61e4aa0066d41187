"""Models of a behaviour whose propensities are not known, from its recorded choices.

    choice_sets     the candidates of each recorded choice, from a log or from a dataset
    logged_starts   the compiled pass over a log that finds them
    logit           conditional logit, with intervals
    network         a small network on the same rows, for comparison
    model           fit and test on later choices, words for the coefficients
    propensities    estimated propensities beside a dataset, and whether they support an estimate

Source of the model: McFadden, "Conditional logit analysis of qualitative choice behavior", in
Frontiers in Econometrics, 1974.
"""
