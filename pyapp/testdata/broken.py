"""Modules that cannot be served."""

raise RuntimeError("it breaks at import")
