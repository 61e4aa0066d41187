"""DeepJS: the figures of its evaluation."""
