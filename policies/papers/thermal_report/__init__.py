"""Network and agent of the 2018 report on DQN in a data centre."""
