"""Runs a server, or the supervisor of several."""

import sys

from .config import Config
from .errors import StartError
from .importing import AppError
from .logs import set_up_logging
from .serving import Server
from .standard import open_missing


def serve(app, **options):
    """Serve an app until SIGINT or SIGTERM: an object, or where to import it from.

    The options are those of Config.
    """
    open_missing()
    config = Config(app=app, **options)
    if config.supervised:
        if not isinstance(app, str):
            raise ValueError('spindle: with workers, reload, limit_memory or timeout_worker_healthcheck, name the app: "module:attribute"')
        from .workers import Supervisor
    try:
        set_up_logging(config.log_level, config.log_config)
        if config.interpreters > 1:
            from .interpreters import InterpretersServer

            return InterpretersServer(config).run()
        return Supervisor(config).run() if config.supervised else Server(config).run()
    except (AppError, StartError) as e:
        print(e, file=sys.stderr)
        return 1
