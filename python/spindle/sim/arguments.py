"""Checks of what callers pass: each error names the function, the argument and the remedy."""

import ipaddress
import math
from numbers import Real


def host_name(world, name):
    """Check the name of a new host."""
    if not isinstance(name, str):
        raise TypeError(f"spindle.sim: world.host: the name of a host is a string, not {name!r}")
    if name in ("", "localhost") or _is_address(name):
        raise ValueError(f"spindle.sim: world.host: {name!r} cannot be the name of a host; choose a word such as 'server'")
    if any(host.name == name for host in world.hosts):
        raise ValueError(f"spindle.sim: world.host: there is a host {name!r} already; keep what world.host has returned for it")
    return name


def _is_address(name):
    if "." not in name and ":" not in name:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def hosts(world, function, *values):
    """Check that the values are hosts of the world."""
    for value in values:
        if not any(value is host for host in world.hosts):
            known = f"a host of another world, {value!r}" if hasattr(value, "_number") else f"not {value!r}"
            raise TypeError(f"spindle.sim: {function} takes hosts that world.host has returned, {known}")


def seconds(function, name, value):
    """Return a duration that is not negative."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"spindle.sim: {function}: {name} is a number of seconds, not {value!r}")
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"spindle.sim: {function}: {name} is a number of seconds from 0 on, not {value!r}")
    return value


def span(function, least, most):
    """Return the ends of a range of durations; most is least if it is None."""
    most = least if most is None else most
    if seconds(function, "least", least) > seconds(function, "most", most):
        raise ValueError(f"spindle.sim: {function}: the least duration, {least!r}, is longer than the most, {most!r}")
    return least, most


def share(function, value):
    """Return a share from 0 to 1."""
    if not isinstance(value, Real):
        raise TypeError(f"spindle.sim: {function}: a share is a number from 0 to 1, not {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"spindle.sim: {function}: a share is from 0 to 1, not {value!r}")
    return float(value)


def whole(function, name, value, least):
    """Return a whole number that is not below least."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"spindle.sim: {function}: {name} is a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"spindle.sim: {function}: {name} is a whole number from {least} on, not {value!r}")
    return value


def function(where, value):
    """Check that a value can be called."""
    if not callable(value):
        raise TypeError(f"spindle.sim: {where} takes a function and its arguments, not {value!r}; write f, not f()")
    return value
