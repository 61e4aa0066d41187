"""Off-policy evaluation of policies on a dataset: whole episodes in, estimates out.

episodes        whole logged episodes as ragged arrays
probabilities   what a policy, or the mixture of all behaviours of a window, would have done
fqe             fitted Q evaluation: values of a policy, by a network or in closed form
truth           what the simulator says of the same policy on the same windows
ope             all of it, for `hindcast ope`
"""
