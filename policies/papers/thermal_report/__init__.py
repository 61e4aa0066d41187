"""The 2018 data-centre DQN report: its network and its agent."""
