"""Random faults, drawn from the seed."""

import random
from dataclasses import dataclass, field

from . import arguments

_KINDS = ("partition", "slow", "crash", "pause", "clock")
_RATES = ("loss", "duplicate", "reorder", "dribble")


@dataclass
class Faults:
    """Random faults of a world: world.faults = Faults(crash_every=5). Times are in seconds.

    The _every fields are the mean times between faults of one kind, and None means never. A
    partition separates two hosts, in one direction or both; slow limits the bandwidth between two;
    a host crashes and restarts, pauses, or gets a wrong clock. After duration every link is up and
    every host runs, so that a program can be expected to make progress.
    """

    duration: float = 60.0
    lasting: float | None = None  # mean duration of a fault; None means a tenth of duration
    partition_every: float | None = None
    slow_every: float | None = None
    crash_every: float | None = None
    pause_every: float | None = None
    clock_every: float | None = None
    loss: float = 0.0  # shares of the messages on every link, as of the methods of Link
    duplicate: float = 0.0
    reorder: float = 0.0
    dribble: float = 0.0
    hosts: list = field(default_factory=list)  # those that crash, pause and get wrong clocks; none means all

    def __post_init__(self):
        for name in ("duration", "lasting", *(kind + "_every" for kind in _KINDS)):
            if (value := getattr(self, name)) is not None:
                arguments.seconds("Faults", name, value)
        for name in _RATES:
            arguments.share(f"Faults: {name}", getattr(self, name))

    def _begin(self, world):
        """Draw the faults and schedule those that shrinking has not left out."""
        arguments.hosts(world, "Faults.hosts", *self.hosts)
        world._script = sorted(self._draw(world), key=lambda fault: fault.at)
        for number, fault in enumerate(world._script):
            if world._keeps(str(number)):
                world.after(fault.at, fault.begin)
                world.after(fault.at + fault.lasts, fault.end)
        for rate in _RATES:
            share = getattr(self, rate)
            if share and world._keeps(rate):
                self._set_rate(world, rate, share)
                world.after(self.duration, self._set_rate, world, rate, 0.0)

    def _set_rate(self, world, rate, share):
        for a in world.hosts:
            for b in world.hosts:
                if a is not b:
                    getattr(world.one_way(a, b), rate)(share)

    def parts(self, world):
        """Return the names of all faults of a world that has begun."""
        return [str(i) for i in range(len(world._script))] + [rate for rate in _RATES if getattr(self, rate)]

    def _draw(self, world):
        for kind in _KINDS:
            every = getattr(self, kind + "_every")
            if not every:
                continue
            source = random.Random(f"{kind} {world.seed}")  # one for each kind: faults of one do not change the others
            at = source.expovariate(1 / every)
            while at < self.duration:
                lasts = min(source.expovariate(1 / (self.lasting or self.duration / 10)), self.duration - at)
                fault = getattr(self, "_" + kind)(world, source, at, lasts)
                if fault is not None:
                    yield fault
                at += source.expovariate(1 / every)

    def _two(self, world, source):
        return source.sample(world.hosts, 2) if len(world.hosts) > 1 else None

    def _one(self, world, source):
        return source.choice(self.hosts or world.hosts)

    def _partition(self, world, source, at, lasts):
        pair, one_way = self._two(world, source), source.random() < 0.5
        if pair is None:
            return None
        a, b = pair
        link = world.one_way(a, b) if one_way else world.link(a, b)
        what = f"{a.name} cannot reach {b.name}" if one_way else f"{a.name} and {b.name} are partitioned"
        return Fault(at, lasts, what, link.cut, link.mend)

    def _slow(self, world, source, at, lasts):
        pair, rate = self._two(world, source), source.randint(1000, 50000)
        if pair is None:
            return None
        a, b = pair
        link = world.one_way(a, b)
        return Fault(at, lasts, f"{a.name} sends at most {rate} bytes per second to {b.name}",
                     lambda: link.bandwidth(rate), lambda: link.bandwidth(0))

    def _crash(self, world, source, at, lasts):
        host = self._one(world, source)
        return Fault(at, lasts, f"{host.name} crashes", host.crash, lambda: host.up or host.restart())

    def _pause(self, world, source, at, lasts):
        host = self._one(world, source)
        return Fault(at, lasts, f"{host.name} pauses", host.pause, host.resume)

    def _clock(self, world, source, at, lasts):
        host, ppm, offset = self._one(world, source), source.randint(-10000, 10000), source.uniform(-30, 30)
        return Fault(at, lasts, f"{host.name} has a clock {offset:.3f} s off that runs {ppm} ppm fast",
                     lambda: host.clock(offset, ppm), lambda: host.clock())


@dataclass
class Fault:
    """One fault of the script."""

    at: float
    lasts: float
    what: str
    begin: object
    end: object

    def __str__(self):
        return f"{self.at:12.6f} s  {self.what}, for {self.lasts:.6f} s"
