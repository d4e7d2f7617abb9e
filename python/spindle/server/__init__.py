"""An HTTP server for ASGI and WSGI apps.

    python -m spindle main:app --port 8000

or, from a program:

    import spindle.server

    spindle.server.serve("main:app", port=8000)

Go accepts connections, parses requests and sends responses; the app runs on a Spindle loop
in the same process.
"""

from .config import Config
from .running import serve
from .serving import ClientDisconnected, Server

__all__ = ["ClientDisconnected", "Config", "Server", "serve"]
