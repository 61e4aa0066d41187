"""Off-policy evaluation of policies on a dataset: whole episodes in, estimates out.

episodes        whole logged episodes as ragged arrays
probabilities   probabilities of a policy, or of the mixture of all behaviours of a window
fqe             fitted Q evaluation: values of a policy, fitted by a network
basis           linear features for marginalised importance sampling
truth           the same policies on the same windows in the simulator
left_out        coverage of estimators on the log's own behaviours
answers         a verdict and a sentence per policy
results         the folder of results
consensus       a ranking by several estimators
selection_table tables of how well estimators rank policies
behaviour       models of a behaviour whose propensities are not known
ope             the whole of `hindcast ope`
"""
