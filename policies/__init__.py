"""Policies, their training, and off-policy evaluation.

The folders, from the ground up. Each imports only folders above it in this list
(tests/test_house.py):

    heuristics   compiled rules, one file per scenario
    networks     architectures, compiled forward passes, checkpoints
    rollouts     compiled play of networks, branches, lookahead
    training     the training loop, minibatches, curves and resuming, shared by all agents
    offline      agents that learn from a dataset
    online       agents that learn by playing
    papers       networks and agents of single papers
    ope          off-policy evaluation

`registry` turns names and folders into policies; `entrants` turns them into rows of an evaluation.
"""
