"""The policy, which asyncio deprecates in Python 3.14. It is imported on first use."""

import asyncio
import warnings

from .loop import Loop

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    _Base = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """A policy that makes Spindle's loops."""

    def _loop_factory(self) -> Loop:
        return Loop()
