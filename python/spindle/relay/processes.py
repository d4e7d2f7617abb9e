"""A bus with workers that are processes, in any language: work in Python, process.Work in Go."""

import asyncio
import collections
import contextlib
import copy
import os
import signal
import subprocess

from ..server.frames import Frames
from .envelope import CODE, Envelope, NoResponder, of_frame

FIRST_PAUSE, MOST_PAUSE = 0.1, 10.0  # before a process starts after one that has ended without an answer


class Processes:
    """Runs worker processes: a command for each subject.

    A process has one request at a time. It is killed with its process group if it does not answer within grace seconds after
    its request was cancelled, and another one takes its place. So it does when a process ends; its request fails, and is not repeated.
    """

    counts_credit = True

    def __init__(self, commands, *, processes=1, grace=0.1, env=None):
        self._pools = {subject: _Pool(self, command, processes, grace, env) for subject, command in commands.items()}
        self._callers = {}
        self._closed = asyncio.Event()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.close()

    async def subscribe(self, subject, receive):
        self._callers[subject] = receive
        return lambda: self._callers.pop(subject, None)

    def publish(self, e):
        pool = self._pools.get(e.subject)
        if pool is None:
            if e.kind == "request":
                raise NoResponder(f"no command serves {e.subject}")
            return
        pool.publish(e)

    def deliver(self, request, kind, seq=0, headers=None, body=b""):
        """Pass an answer on to the caller of a request."""
        receive = self._callers.get(request.reply_to)
        if receive is not None:
            receive(Envelope(kind, request.reply_to, id=request.id, seq=seq, headers=headers or {}, body=body))

    async def drain(self):
        await asyncio.sleep(0)

    async def wait_closed(self):
        await self._closed.wait()

    async def close(self):
        """Kill the processes, and wait for their end."""
        self._closed.set()
        for pool in self._pools.values():
            await pool.close()


class _Pool:
    """The processes of a subject."""

    def __init__(self, bus, command, most, grace, env):
        self.bus, self.command, self.most, self.grace, self.env = bus, command, most, grace, env
        self.queue = collections.deque()
        self.children = set()
        self.pause = 0.0  # before the next start; 0 after an answer
        self.resting = None  # the timer of the pause
        self.ending = set()  # tasks that wait for the end of a process
        self.closed = False

    def publish(self, e):
        if e.kind == "request":
            self.queue.append(e)
            self.pump()
            return
        key = e.reply_to, e.id
        for request in self.queue:
            if (request.reply_to, request.id) == key and e.kind == "cancel":
                self.queue.remove(request)
                return
        for child in self.children:
            if child.request is not None and (child.request.reply_to, child.request.id) == key:
                child.cancel() if e.kind == "cancel" else child.allow(e.seq)
                return

    def pump(self):
        """Give requests to idle processes, and start processes for the others."""
        while self.queue and not self.closed:
            child = next((c for c in self.children if c.request is None), None)
            if child is None:
                if len(self.children) >= self.most or self.resting is not None:
                    return
                try:
                    child = _Child(self)
                except OSError as e:
                    self.bus.deliver(self.queue.popleft(), "failure", headers={CODE: "exited"}, body=f"the worker cannot start: {e}".encode())
                    continue
                self.children.add(child)
            child.begin(self.queue.popleft())

    def rest(self):
        """Wait before the next process is started."""
        if self.resting is None and not self.closed:
            self.pause = min(MOST_PAUSE, self.pause * 2 or FIRST_PAUSE)
            self.resting = asyncio.get_running_loop().call_later(self.pause, self._rested)

    def _rested(self):
        self.resting = None
        self.pump()

    async def close(self):
        self.closed = True
        if self.resting is not None:
            self.resting.cancel()
        for child in list(self.children):
            child.end()
        if self.ending:
            await asyncio.wait(self.ending)


class _Child:
    """A worker process."""

    def __init__(self, pool):
        self.pool = pool
        self.request = None
        self.answered = False  # it has answered a request
        self._number = 0
        self._cancelled = False
        self._allowed = 0
        self._paused = False
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            self.process = subprocess.Popen(pool.command, stdin=theirs_in, stdout=theirs_out, env=pool.env, process_group=0)
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._fds = ours_in, ours_out
        self._frames = Frames(asyncio.get_running_loop(), ours_in, ours_out, self._receive, self.end)

    def begin(self, request):
        self._number += 1
        self.request, self._cancelled, self._allowed = request, False, request.seq
        e = copy.copy(request)
        e.id = str(self._number)
        self._frames.send(e.header(), e.body)

    def allow(self, n):
        self._allowed = max(self._allowed, n)
        if self._paused:
            self._paused = False
            self._frames.resume()

    def cancel(self):
        """Ask the process to give its request up, and kill it if it does not."""
        self._cancelled = True
        self.allow(1 << 32)  # its answer is read
        self._frames.send({"kind": "cancel", "id": str(self._number)})
        asyncio.get_running_loop().call_later(self.pool.grace, self._give_up, self._number)

    def _give_up(self, number):
        if self.request is not None and self._number == number:
            self.end()

    def _receive(self, header, body):
        e = of_frame(header, body)
        if self.request is None or e.id != str(self._number):
            return  # a second answer to a request that was cancelled
        if not self._cancelled:
            self.pool.bus.deliver(self.request, e.kind, e.seq, e.headers, e.body)
        if e.kind != "item":
            self.allow(0)  # what comes next may have been read with the items
            self.request, self.answered, self.pool.pause = None, True, 0.0
            self.pool.pump()
        elif e.seq >= self._allowed and not self._paused:
            self._paused = True
            self._frames.pause()

    def end(self):
        """End the process, and what it does."""
        if self not in self.pool.children:
            return
        self.pool.children.discard(self)
        self._frames.close()
        for fd in self._fds:
            os.close(fd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        waiting = asyncio.get_running_loop().create_task(asyncio.to_thread(self.process.wait))
        self.pool.ending.add(waiting)
        waiting.add_done_callback(self.pool.ending.discard)
        if self.request is not None and not self._cancelled:
            self.pool.bus.deliver(self.request, "failure", headers={CODE: "exited"}, body=b"the worker process ended before it answered")
        if not self.answered:
            self.pool.rest()
        self.pool.pump()
