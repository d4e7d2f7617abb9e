"""The bus of a worker process: its standard input and output, or a socket."""

import asyncio
import os
import socket

from ..server.frames import Frames
from .envelope import of_frame

SOCKET = "SPINDLE_RELAY_SOCKET"  # the variable with the path of the worker's socket, if there is one


class Pipe:
    """The pipes to the program that has started this process. It serves one subject, whatever its name is."""

    counts_credit = False  # the program reads what it needs, and the pipe makes the worker wait

    def __init__(self):
        self._frames = None
        self._receive = None
        self._closed = asyncio.Event()

    async def subscribe(self, subject, receive):
        if self._frames is not None:
            raise RuntimeError("spindle.relay: a worker process serves one handler")
        self._receive = receive
        self._frames = Frames(asyncio.get_running_loop(), *_open(), self._take, self._closed.set)
        return self._frames.finish

    def _take(self, header, body):
        e = of_frame(header, body)
        e.reply_to = ""  # a cancellation has only the ID
        self._receive(e)

    def publish(self, e):
        self._frames.send(e.header(), e.body)

    async def drain(self):
        await self._frames.drain()

    async def wait_closed(self):
        await self._closed.wait()


def _open():
    """Return the descriptors for input and output. What the program prints goes to standard error."""
    path = os.environ.get(SOCKET)
    if path:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        fd = connection.detach()
        return fd, os.dup(fd)
    fds = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return fds
