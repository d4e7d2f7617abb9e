"""The text of a failure."""

LAST = 8  # events of each host
MOST_REPORTS = 10


def describe(world, error):
    """Return what a reader needs to know about a failed run, besides its traceback."""
    lines = [f"spindle.sim: seed {world.seed} fails at {world._ended_at / 1e9:.6f} s: {type(error).__name__}"]
    lines += faults_of(world) + _events(world)
    if world._scene:
        lines += ["tasks:", *("  " + line for line in world._scene.splitlines())]
    if world.reports:
        lines += ["also:", *("  " + line for line in world.reports[:MOST_REPORTS])]
        if len(world.reports) > MOST_REPORTS:
            lines.append(f"  and {len(world.reports) - MOST_REPORTS} more")
    return "\n".join(lines)


def faults_of(world):
    """Return lines about the faults and amounts of a run."""
    kept = [fault for number, fault in enumerate(world._script) if world._keeps(str(number))]
    rates = [part for part in world._fault_parts() if not part.isdigit()]
    every = world.faults.parts(world) if world.faults is not None else []
    lines = []
    if every:
        lines.append(f"faults ({len(kept) + len(rates)} of {len(every)} are needed):")
        lines += [f"  {fault}" for fault in kept] + [f"  {rate} on every link" for rate in rates]
    lines += [f"amount: {name} = {value}" for name, value in world._amounts.items()]
    return lines


def _events(world):
    events = world.trace()
    lines = []
    for host in world.hosts:
        own = [event for event in events if host.name in (event["From"], event["To"])]
        lines.append(f"last events of host {host.name} ({len(own)} in all):")
        lines += ["  " + event["Text"].strip() for event in own[-LAST:]]
    return lines
