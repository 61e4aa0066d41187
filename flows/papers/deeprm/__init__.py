"""DeepRM: the published policy gradient on generated job sets."""
