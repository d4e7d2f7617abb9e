"""The server in a subinterpreter; interpreters.py starts it."""

import contextlib
import json
import os
import sys

from .config import Config
from .errors import StartError
from .importing import AppError
from .logs import set_up_logging
from .mount import Mounted, adapt
from .worker import WorkerServer


def serve_here(options, fd, commands, status, tally, mounted, remedy):
    """Serve in this interpreter, and send the main one the exit code. Mounted is true in a worker of a Go program."""
    code = 1
    try:
        config = Config(**options)
        config.fd, config.tally = fd, tally
        if mounted:
            adapt(config)
        set_up_logging(config.log_level, config.log_config)
        code = (MountedInterpreterServer if mounted else InterpreterServer)(config, commands, status, remedy).run()
    except (AppError, StartError) as e:
        if mounted:
            os.write(status, f"failed {json.dumps((e.reason, str(e)[:2000]))}\n".encode())
        else:
            print(e, file=sys.stderr)
    finally:
        os.close(commands)
        with contextlib.suppress(OSError):
            os.write(status, f"exit {code}\n".encode())


class InterpreterServer(WorkerServer):
    """The server in a subinterpreter. It takes commands from the main interpreter, as a worker does from its supervisor."""

    def __init__(self, config, commands, status, remedy):
        super().__init__(config, commands, status)
        self.remedy = remedy

    def _load(self):
        try:
            return super()._load()
        except AppError as e:
            if reason := _refusal(e):
                raise AppError(f"{e}\nspindle: {reason}; {self.remedy}", "interpreters") from None
            raise


class MountedInterpreterServer(Mounted, InterpreterServer):
    """The same in a worker of a Go program."""


def _refusal(error):
    """Return the message of an extension module that refuses to load in a subinterpreter, or None."""
    while error is not None:
        if isinstance(error, ImportError) and "subinterpreter" in str(error):
            return " ".join(str(error).split())
        error = error.__cause__ or error.__context__
    return None
