"""Papers, one folder each: what serves a single paper, from its network to its page.

A paper comes to Hindcast as any plug-in does: the entry points in pyproject.toml name what it
brings. Nothing outside of this folder imports from it.
"""
