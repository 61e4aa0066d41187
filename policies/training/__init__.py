"""Code that offline and online training share: loop, minibatches, curves, resuming."""
