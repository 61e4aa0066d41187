"""What offline and online trainings share: loop, minibatches, curves, resuming."""
