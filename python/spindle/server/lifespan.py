"""The lifespan protocol: the app starts before the first request, and stops after the last."""

import asyncio
import logging

logger = logging.getLogger("spindle.server")


CANCEL_WAIT = 5  # seconds that a cancelled app may take
UNUSED = "spindle: the app does not use lifespan events"


class Lifespan:
    """Runs an app's lifespan in a task of its own."""

    def __init__(self, app, mode):
        self.app = app
        self.mode = mode
        self.state = {}
        self.failed = False  # the app cannot be served
        self._reported = False  # the app has said why, and it is logged
        self._supported = mode != "off"
        self._serves = False  # startup is complete, and shutdown has not begun
        self._task = None

    async def startup(self):
        if self.mode == "off":
            return
        self._messages = asyncio.Queue()
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="lifespan")
        self._messages.put_nowait({"type": "lifespan.startup"})
        await self._started.wait()

    async def shutdown(self):
        if not self._supported or self._task is None:
            return
        self._serves = False
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        await self._stopped.wait()
        await asyncio.wait([self._task], timeout=1)

    async def cancel(self):
        """End a lifespan that does not come to its end."""
        self._supported = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_WAIT)

    async def _run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.app(scope, self._messages.get, self._send)
        except BaseException as e:
            cancelled = not self._supported and isinstance(e, asyncio.CancelledError)
            self._supported = False
            if cancelled or self._reported:
                pass
            elif self._started.is_set() or self.mode == "on":
                self.failed = self.failed or not self._serves  # an app that serves goes on without its lifespan
                logger.error("spindle: the app's lifespan failed", exc_info=e)
            elif not self.failed:
                logger.info(UNUSED)
                logger.debug("spindle: what the app raised when it was called for lifespan", exc_info=e)
            if not isinstance(e, Exception):
                raise
        finally:
            if not self._started.is_set() and self._supported and not self.failed:
                logger.info(UNUSED)
                self._supported = False
            self._started.set()
            self._stopped.set()

    async def _send(self, message):
        kind = message["type"]
        if kind == "lifespan.startup.complete" and not self._started.is_set():
            self._serves = True
            self._started.set()
        elif kind == "lifespan.startup.failed" and not self._started.is_set():
            self._fail("start", message)
            self._started.set()
        elif kind == "lifespan.shutdown.complete" and self._started.is_set() and not self._stopped.is_set():
            self._stopped.set()
        elif kind == "lifespan.shutdown.failed" and self._started.is_set() and not self._stopped.is_set():
            self._fail("stop", message)
            self._stopped.set()
        else:
            raise RuntimeError(f"spindle: the app sent {kind!r}, which cannot be sent now")

    def _fail(self, what, message):
        self.failed = self._reported = True
        logger.error("spindle: the app could not %s%s", what, ": " + message["message"] if message.get("message") else "")
