"""python -m spindle.sim.guest module:function host seed: a program of a world that package sim of Go runs."""

import os
import sys
import traceback

from .. import _core
from .__main__ import find_function
from .world import World

_RETURN = 26  # libspindle/world.h
_IN, _OUT = 3, 4  # descriptors


class _Joined(World):
    """The end of a world that another process runs. It has one host."""

    _make_core = staticmethod(lambda seed: _core.World(seed, _IN, _OUT))


def main():
    """Run the program and tell the world how it ended."""
    function, name, seed = sys.argv[1:]
    sys.path.insert(0, os.getcwd())
    world, error = _Joined(int(seed)), ""
    try:
        world.host(name).start(find_function(function))
        world._drive(lambda: world._pending == 0)
    except BaseException:
        error = traceback.format_exc()
    world._control(_RETURN, text=error)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
