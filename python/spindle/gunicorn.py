"""Serves an app in the processes of gunicorn.

    gunicorn -k spindle.Worker -w 4 main:app

gunicorn starts the processes, replaces those that end, and has the sockets. Options that gunicorn does not have are
set in a subclass:

    class Worker(spindle.Worker):
        OPTIONS = {"limit_body_size": 1 << 20}
"""

import asyncio
import logging
import os
import signal
import sys

from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker as _Base

from .server.config import Config
from .server.serving import Server

__all__ = ["Worker"]


class Worker(_Base):
    """A process of gunicorn with a Spindle server for ASGI and WSGI apps."""

    #: Options of spindle.server.Config.
    OPTIONS = {}

    def init_signals(self):
        # The server handles those that stop it, and the app's own processes must not inherit gunicorn's handlers.
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, self.handle_usr1)
        signal.siginterrupt(signal.SIGUSR1, False)

    def run(self):
        logger = logging.getLogger("spindle")
        logger.handlers, logger.propagate = list(self.log.error_log.handlers), False
        logger.setLevel(self.log.error_log.level)
        server = _Server(self, self._config())
        server.run([s.sock for s in self.sockets])
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)

    def _config(self):
        cfg = self.cfg
        if cfg.accesslog not in (None, "-"):
            self.log.warning("spindle: the access log goes to standard output, not to %s", cfg.accesslog)
        options = {
            "access_log": cfg.accesslog is not None,
            "forwarded_allow_ips": allowed if isinstance(allowed := cfg.forwarded_allow_ips, str) else ",".join(allowed),
            # A process that takes longer is killed with its requests, so they are cancelled before.
            "timeout_graceful_shutdown": cfg.graceful_timeout * 0.9,
            "timeout_keep_alive": cfg.keepalive,
            "root_path": getattr(cfg, "root_path", ""),
        }
        if cfg.max_requests:
            options["limit_max_requests"] = self.max_requests  # with the jitter of this process
        if cfg.threads > 1:
            options["wsgi_threads"] = cfg.threads
        if cfg.is_ssl:
            options.update(ssl_certfile=cfg.certfile, ssl_keyfile=cfg.keyfile)
            if cfg.ca_certs:
                options.update(ssl_ca_certs=cfg.ca_certs, ssl_cert_reqs=int(cfg.cert_reqs))
            if cfg.ciphers:
                options.update(ssl_ciphers=cfg.ciphers)
        return Config(app=self.wsgi, **{**options, **self.OPTIONS})


class _Server(Server):
    """A server that tells gunicorn that it lives, and obeys its signals."""

    def __init__(self, worker, config):
        super().__init__(config)
        self.worker = worker

    async def _starting(self):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGQUIT):  # gunicorn ends without waiting for requests
            loop.add_signal_handler(number, self._quit)
        self._live(loop)

    def _live(self, loop):
        self.worker.notify()
        if self.worker.ppid != os.getppid():  # gunicorn is gone
            self._orphaned = True
            self.stop()
        else:
            loop.call_later(min(1, self.worker.timeout / 3 or 1), self._live, loop)

    def _quit(self):
        self.stop()
        self.stop()
