"""Links between hosts."""

from . import arguments

(_CUT, _DELAY, _LOSS, _DUPLICATE, _REORDER, _DRIBBLE, _RATE) = range(7, 14)  # libspindle/world.h


def nanoseconds(seconds):
    """Return a duration in the unit of libspindle."""
    return round(seconds * 1e9)


class Link:
    """The link between two hosts, in one direction or both. Methods return the link, for chains."""

    def __init__(self, world, ways):
        self._world, self._ways = world, ways

    def _set(self, op, **values):
        for a, b in self._ways:
            self._world._control(op, a, b, **values)
        return self

    def delay(self, least, most=None):
        """Set the latency in seconds: fixed, or drawn evenly from least to most."""
        least, most = arguments.span("delay", least, most)
        return self._set(_DELAY, x=nanoseconds(least), y=nanoseconds(most))

    def long_tail(self, typical):
        """Set a latency that is mostly near typical and occasionally far longer."""
        return self._set(_DELAY, x=nanoseconds(arguments.seconds("long_tail", "typical", typical)), y=-1)

    def loss(self, share):
        """Set the share of datagrams that are lost; connections send again after a time-out."""
        return self._set(_LOSS, f=arguments.share("loss", share))

    def duplicate(self, share):
        """Set the share of datagrams that arrive twice."""
        return self._set(_DUPLICATE, f=arguments.share("duplicate", share))

    def reorder(self, share):
        """Set the share of datagrams that later ones overtake."""
        return self._set(_REORDER, f=arguments.share("reorder", share))

    def dribble(self, share):
        """Set the share of a connection's segments that arrive in small pieces."""
        return self._set(_DRIBBLE, f=arguments.share("dribble", share))

    def bandwidth(self, bytes_per_second):
        """Limit how many bytes pass per second; 0 means no limit."""
        return self._set(_RATE, x=arguments.whole("bandwidth", "bytes_per_second", bytes_per_second, 0))

    def cut(self):
        """Block the link. Datagrams are lost; connections send again, and fail after a quarter of an hour."""
        return self._set(_CUT, x=1)

    def mend(self):
        """End a cut."""
        return self._set(_CUT, x=0)
