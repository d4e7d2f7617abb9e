"""The commands of the servers that server.py compares."""

import importlib.util
import os
import sys

HTTP2 = ("spindle", "granian", "granian-rsgi", "hypercorn")  # those that speak it without TLS

# The package of each server.
PACKAGES = {"spindle": "spindle", "uvicorn": "uvicorn", "granian": "granian", "granian-rsgi": "granian", "hypercorn": "hypercorn",
            "robyn": "robyn", "socketify": "socketify", "fastpysgi": "fastpysgi"}


def installed():
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


def command(server, case, port, workers=1):
    """Return the command of a server, None if it cannot serve a case.

    A server of uvicorn may name its WebSocket protocol: uvicorn/wsproto.
    """
    server, _, ws = server.partition("/")
    if case.http2 and server not in HTTP2:
        return None
    return COMMANDS[server](case, port, str(workers), ws)


def python(*arguments):
    return [sys.executable, *arguments]


def common(case, port, workers):
    return [case.app, "--port", port, "--no-access-log", "--log-level", "warning", "--workers", workers]


def spindle(case, port, workers, ws):
    return python("-m", "spindle", *common(case, port, workers), "--interface", "wsgi" if case.wsgi else "asgi3")


def uvicorn(case, port, workers, ws):
    return python("-m", "uvicorn", *common(case, port, workers), "--loop", "uvloop", "--http", "httptools",
                  "--interface", "wsgi" if case.wsgi else "asgi3", *(["--ws", ws] if ws else []))


def granian(case, port, workers, ws):
    return python("-m", "granian", *common(case, port, workers), "--interface", "wsgi" if case.wsgi else "asgi")


def granian_rsgi(case, port, workers, ws):
    if case.name != "plaintext":
        return None
    return python("-m", "granian", "server_apps:rsgi", *common(case, port, workers)[1:], "--interface", "rsgi")


def hypercorn(case, port, workers, ws):
    # It evaluates the name among those of the module, where apps that are made on demand are not.
    app = f"server_apps:__getattr__({case.name!r})" if case.name in ("starlette", "fastapi", "wsgi") else case.app
    if case.wsgi:
        app = "wsgi:" + app
    return python("-m", "hypercorn", "--bind", f"127.0.0.1:{port}", "--workers", workers, "--worker-class", "uvloop", "--log-level", "warning", app)


def robyn(case, port, workers, ws):
    return python("server_robyn.py", port, "--log-level=WARN") if case.name == "plaintext" else None


def socketify(case, port, workers, ws):
    if case.name == "websocket":
        return None
    return python("-m", "socketify", case.app, "--host", "127.0.0.1", "--port", port, "--workers", workers, "--interface", "wsgi" if case.wsgi else "asgi")


def fastpysgi(case, port, workers, ws):
    if case.name == "websocket":
        return None
    return python("-c", f"import fastpysgi, server_apps; fastpysgi.run(server_apps.{case.name}, host='127.0.0.1', port={port})")


def older(directory):
    """Return the command of another build of this server, for COMMANDS: that in a directory, such as site-packages."""

    def command(case, port, workers, ws):
        path = os.pathsep.join((directory, os.path.dirname(os.path.abspath(__file__))))
        return ["env", f"PYTHONPATH={path}", *spindle(case, port, workers, ws)]

    return command


COMMANDS = {"spindle": spindle, "uvicorn": uvicorn, "granian": granian, "granian-rsgi": granian_rsgi, "hypercorn": hypercorn,
            "robyn": robyn, "socketify": socketify, "fastpysgi": fastpysgi}
