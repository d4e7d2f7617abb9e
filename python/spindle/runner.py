"""Runs a coroutine on a new loop, as asyncio.run does."""

import asyncio
import inspect


def run(main, debug, loop_factory, name):
    """Run main on a loop of loop_factory. name is the function that the program has called."""
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            f"{name} cannot be called from a running event loop; in a coroutine or a notebook, await the coroutine")
    if inspect.iscoroutinefunction(main):
        function = getattr(main, "__name__", repr(main))  # a functools.partial has no name
        raise ValueError(f"{name} was given the function {function}; call it: {name}({function}())")
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)
