import asyncio

__all__ = ["tree"]

def tree(loop: asyncio.AbstractEventLoop | None = None) -> str: ...
