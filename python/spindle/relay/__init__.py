"""Planes in Python: callers, workers, and a bus between them. See the Go package relay.

A worker process of a Go program (package relay/process), or of a Processes bus:

    from spindle import relay

    def upper(request):
        return request.body.upper()

    relay.work(upper)

A caller, with workers that are processes:

    async with relay.Processes({"upper": ["python3", "worker.py"]}) as bus:
        async with relay.Caller(bus) as caller:
            reply = await caller.call("upper", b"hello", timeout=5)

Processes is one bus; Local is in one process, and Nats is on a connection to NATS.
"""

from .caller import Caller, Stats
from .envelope import Envelope, NoResponder, RemoteError
from .local import Local
from .nats import Nats
from .pipe import Pipe
from .processes import Processes
from .worker import Request, Worker, work

__all__ = ["Caller", "Envelope", "Local", "Nats", "NoResponder", "Pipe", "Processes", "RemoteError", "Request", "Stats", "Worker", "work"]
