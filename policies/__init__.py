"""Decision makers, what trains them, and how they are judged from a log.

Folders from the ground up; each imports those above it in this list only (tests/test_house.py):

    heuristics   compiled rules, one file per scenario
    networks     architectures, compiled forward passes, checkpoints
    rollouts     compiled play of networks, branches, lookahead
    training     the loop, minibatches, curves, resuming: what all trainings share
    offline      agents that learn from a dataset
    online       agents that play
    papers       networks and agents that only one paper's reproduction needs
    ope          off-policy evaluation

`registry` turns names and folders into policies, `entrants` into rows of an evaluation.
"""
