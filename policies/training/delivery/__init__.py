"""Deliveries of trainings: the trained agent, or the best rule where the agent is not better.

verdict     comparison of an agent with a rule, and the delivered checkpoint
played      gate that plays validation windows in the simulator
folds       gate that trains again, without a part of the windows each time
ahead       gate that also compares with a policy that looks ahead
agreement   gate on a log alone
training    the training, its verdict, and the writing of what is finished and delivered
"""
