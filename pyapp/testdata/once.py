from interpreted import HERE, app

if HERE != 0:
    raise RuntimeError("it is already open")

__all__ = ["app"]
