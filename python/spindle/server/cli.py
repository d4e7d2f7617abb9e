"""The command line: python -m spindle APP."""

import argparse
import os
import re
import sys

from .config import CHOICES, Config
from .standard import open_missing


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message):
        text = " ".join(message.splitlines()).removeprefix("spindle: ")
        if text.startswith("unrecognized arguments: "):
            text += self._hint(text.split()[2])
        self.exit(2, f"spindle: {text}\n".encode(errors="backslashreplace").decode())

    def _hint(self, argument):
        import difflib

        near = difflib.get_close_matches(argument.partition("=")[0], self._option_string_actions, 1, 0.75)
        return "".join(f" (did you mean {option}?)" for option in near) + "; see python -m spindle --help"


def parser():
    p = Parser(
        prog="python -m spindle", usage="python -m spindle [OPTIONS] APP", description="Serve an ASGI or WSGI app.",
        epilog="Every option can also be set in the environment, as SPINDLE_ and its name in upper case, "
               "or in pyproject.toml, in the table tool.spindle.server.")
    p.add_argument("app", nargs="?", help="module:attribute, or a Python file with an app")
    group = p.add_argument_group("where")
    group.add_argument("--host", help="address to listen on (127.0.0.1)")
    group.add_argument("--port", type=int, help="port to listen on; 0 for any (8000)")
    group.add_argument("--uds", metavar="PATH", help="listen on a Unix socket")
    group.add_argument("--fd", type=int, help="listen on a descriptor, as of socket activation")
    group.add_argument("--backlog", type=int, help="connections that may wait to be accepted (2048)")
    group = p.add_argument_group("app")
    group.add_argument("--factory", action="store_true", default=None, help="APP is a function that returns the app")
    group.add_argument("--app-dir", metavar="DIR", help="where to look for modules (the working directory)")
    group.add_argument("--interface", choices=CHOICES["interface"])
    group.add_argument("--lifespan", choices=CHOICES["lifespan"])
    group.add_argument("--root-path", help="path under which a proxy offers the app")
    group.add_argument("--env-file", metavar="FILE", help="set environment variables from a file before importing the app")
    group.add_argument("--wsgi-threads", type=int, help="threads for a WSGI app (32)")
    group = p.add_argument_group("processes")
    group.add_argument("--workers", type=int, help="processes that serve (1, or WEB_CONCURRENCY)")
    group.add_argument("--interpreters", type=int, help="interpreters that serve in one process, each with its own GIL (1)")
    group.add_argument("--reload", action="store_true", default=None, help="start again when a Python file changes")
    group.add_argument("--reload-dir", action="append", dest="reload_dirs", metavar="DIR", help="watch this directory")
    group.add_argument("--reload-include", action="append", dest="reload_includes", metavar="PATTERN", help="watch such files, too (*.py)")
    group.add_argument("--reload-exclude", action="append", dest="reload_excludes", metavar="PATTERN",
                       help="do not watch such files, or this directory")
    group.add_argument("--reload-delay", type=float, metavar="SECONDS", help="between two looks at the files (0.25)")
    group.add_argument("--timeout-worker-healthcheck", type=float, metavar="SECONDS",
                       help="replace a worker that blocks its loop for so long (never)")
    group.add_argument("--limit-max-requests", type=int, metavar="N", help="stop after so many requests; workers are replaced")
    group.add_argument("--limit-max-requests-jitter", type=int, metavar="N", help="up to so many more, by chance")
    group.add_argument("--limit-memory", type=int, metavar="MB", help="replace a worker that holds more")
    group = p.add_argument_group("limits")
    group.add_argument("--limit-concurrency", type=int, metavar="N", help="apps that run at a time; others get 503")
    group.add_argument("--limit-connections", type=int, metavar="N", help="open connections; others wait")
    group.add_argument("--limit-header-size", type=int, metavar="BYTES")
    group.add_argument("--limit-header-fields", type=int, metavar="N", help="fields of a header (128)")
    group.add_argument("--limit-request-line", type=int, metavar="BYTES", help="of the first line, which has the URL (8 KB)")
    group.add_argument("--limit-body-size", type=int, metavar="BYTES")
    group.add_argument("--timeout-keep-alive", type=float, metavar="SECONDS", help="for the next request (5)")
    group.add_argument("--timeout-header", type=float, metavar="SECONDS", help="for a request's header (10)")
    group.add_argument("--timeout-body", type=float, metavar="SECONDS", help="for the next piece of a request's body (300)")
    group.add_argument("--timeout-write", type=float, metavar="SECONDS", help="for a client that does not read (30)")
    group.add_argument("--timeout-graceful-shutdown", type=float, metavar="SECONDS",
                       help="for requests under way at the end; then they are cancelled (no limit)")
    group = p.add_argument_group("protocol")
    group.add_argument("--http", choices=CHOICES["http"],
                       help="HTTP/1.1, HTTP/2, or both: by ALPN with TLS, without by what the client begins with (auto)")
    group.add_argument("--http2-max-concurrent-streams", type=int, metavar="N", help="requests of a connection at a time (250)")
    group.add_argument("--ssl-certfile", metavar="FILE")
    group.add_argument("--ssl-keyfile", metavar="FILE")
    group.add_argument("--ssl-keyfile-password", metavar="TEXT", help="better as SPINDLE_SSL_KEYFILE_PASSWORD: other users see arguments")
    group.add_argument("--ssl-ca-certs", metavar="FILE", help="require certificates of clients")
    group.add_argument("--ssl-cert-reqs", type=int, metavar="N", help="of clients: 0 for none, 1 for optional, 2 for required (2 with --ssl-ca-certs)")
    group.add_argument("--ssl-version", type=int, metavar="N", help="a protocol of the module ssl: 17 for TLS 1.2 and later, 5 for TLS 1.2 alone (17)")
    group.add_argument("--ssl-ciphers", metavar="LIST", help="for TLS 1.2, as OpenSSL lists them: ECDHE+AESGCM, for example (those of Go)")
    group.add_argument("--proxy-headers", action=argparse.BooleanOptionalAction, default=None,
                       help="believe X-Forwarded-For and X-Forwarded-Proto of trusted proxies (on)")
    group.add_argument("--forwarded-allow-ips", help="the trusted proxies: addresses, networks or * (FORWARDED_ALLOW_IPS, or 127.0.0.1,::1)")
    group.add_argument("--server-header", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--date-header", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--header", action="append", dest="headers", metavar="NAME:VALUE", help="add a field to every response")
    group.add_argument("--ws-max-size", type=int, metavar="BYTES", help="of a message (16 MB)")
    group.add_argument("--ws-max-queue", type=int, metavar="N",
                       help="messages that wait for the app before the client is not read any more (64 KB of them)")
    group.add_argument("--ws-ping-interval", type=float, metavar="SECONDS")
    group.add_argument("--ws-ping-timeout", type=float, metavar="SECONDS")
    group.add_argument("--ws-per-message-deflate", action=argparse.BooleanOptionalAction, default=None)
    group = p.add_argument_group("served by Go")
    group.add_argument("--static", action="append", metavar="PREFIX=DIR", help="serve files")
    group.add_argument("--metrics", metavar="PATH", help="metrics for Prometheus")
    group.add_argument("--health", metavar="PATH", help="answers 200 while the process lives")
    group.add_argument("--ready", metavar="PATH", help="answers 200 until the server stops")
    group = p.add_argument_group("logs")
    group.add_argument("--log-level", choices=CHOICES["log_level"])
    group.add_argument("--log-config", metavar="FILE", help="set up Python's logging from a file: .json, .toml, .yaml or .ini")
    group.add_argument("--access-log", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--access-log-format", choices=CHOICES["access_log_format"])
    p.add_argument("--version", action="store_true")
    return p


def read_config(arguments, environment):
    """Return the configuration of a command line: options, else environment, else pyproject.toml."""
    p = parser()
    given = vars(p.parse_args(arguments))
    if given.pop("version"):
        print(versions())
        raise SystemExit(0)
    env_file = given.pop("env_file") or environment.get("SPINDLE_ENV_FILE")
    if env_file:
        read_env_file(p, env_file, environment)
    values = from_pyproject(p)
    values.update(from_environment(p, environment))
    values.update({k: v for k, v in given.items() if v is not None})
    if not values.get("app"):
        p.error("name the app: module:attribute, or a Python file")
    for name, separator, example in (("headers", ":", "X-Name: value"), ("static", "=", "/assets=DIR")):
        pairs = []
        for item in values.get(name) or []:
            key, found, value = item.partition(separator)
            if not found:
                p.error(f"--{name.rstrip('s')} {item}: write it as {example}")
            pairs.append((key.strip(), value.strip()))
        values[name] = pairs
    if "forwarded_allow_ips" not in values and (text := environment.get("FORWARDED_ALLOW_IPS")) is not None:
        values["forwarded_allow_ips"] = text
    if "workers" not in values and (text := environment.get("WEB_CONCURRENCY")):
        if not (text.isascii() and text.isdecimal()):
            p.error(f"WEB_CONCURRENCY={text}: not a number of workers")
        values["workers"] = int(text)
    try:
        return Config(**values)
    except (TypeError, ValueError) as e:
        p.error(str(e))


def versions():
    """Return the versions of the package, of the library in Go, and of what the two were built with."""
    import platform

    from .. import __version__, _core

    library, go = _core.library_version().split()
    return f"spindle {__version__} ({platform.python_implementation()} {platform.python_version()}), libspindle {library} ({go})"


SWITCHES = {**dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True),
            **dict.fromkeys(("", "0", "false", "no", "off", "f", "n"), False)}


PLURALS = {"header": "headers", "reload_dir": "reload_dirs", "reload_include": "reload_includes", "reload_exclude": "reload_excludes"}
NOT_SET = ("help", "version", "env_file")  # options of the command line that are not in the configuration


def from_environment(p, environment):
    values = {}
    for action in p._actions:
        name, text = in_environment(action, environment)
        if text is None or action.dest in NOT_SET:
            continue
        try:
            values[action.dest] = convert(action, text)
        except ValueError:
            p.error(f"{name}={text}: not a value for this option")
    return values


def in_environment(action, environment):
    """Return the variable of an option, and its value or None. --header has the name that uvicorn gives it, too: HEADERS."""
    names = [action.dest] + [option[2:].replace("-", "_") for option in action.option_strings
                              if option.startswith("--") and not option.startswith("--no-")]
    for name in names:
        if (text := environment.get(f"SPINDLE_{name.upper()}")) is not None:
            return f"SPINDLE_{name.upper()}", text
    return None, None


def convert(action, text):
    if isinstance(action, (argparse._StoreTrueAction, argparse.BooleanOptionalAction)):
        if text.lower() not in SWITCHES:
            raise ValueError(text)
        return SWITCHES[text.lower()]
    if isinstance(action, argparse._AppendAction):
        return [part for part in text.split(";") if part]
    value = action.type(text) if action.type else text
    if action.choices and value not in action.choices:
        raise ValueError(value)
    return value


def from_pyproject(p):
    try:
        with open("pyproject.toml", "rb") as f:
            import tomllib

            options = table(p, table(p, tomllib.load(f), "tool"), "spindle")
    except FileNotFoundError:
        return {}
    except OSError as e:
        p.error(f"pyproject.toml: {e.strerror}")
    except ValueError as e:  # not TOML, or not UTF-8
        p.error(f"pyproject.toml: {e}")
    known = {action.dest: action for action in p._actions if action.dest not in NOT_SET}
    values = {}
    for key in options:
        if key.replace("-", "_") in known:
            p.error(f"pyproject.toml: tool.spindle has the option {key!r}; options belong into the table tool.spindle.server")
    for key, value in table(p, options, "server").items():
        name = PLURALS.get(key.replace("-", "_"), key.replace("-", "_"))
        if name not in known:
            p.error(f"pyproject.toml: tool.spindle.server has no option {key!r}")
        if known[name].choices and type(value) is int:
            value = str(value)  # http = 2
        if not fits(known[name], value):
            p.error(f"pyproject.toml: {key} = {value!r}: not a value for this option")
        values[name] = value
    return values


def table(p, parent, name):
    found = parent.get(name, {})
    if not isinstance(found, dict):
        p.error(f"pyproject.toml: {name} is not a table")
    return found


def fits(action, value):
    """Report whether a value of pyproject.toml has the type of an option."""
    if isinstance(action, (argparse._StoreTrueAction, argparse.BooleanOptionalAction)):
        return isinstance(value, bool)
    if isinstance(action, argparse._AppendAction):
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool) or action.choices and value not in action.choices:
        return False
    return isinstance(value, {int: int, float: (int, float)}.get(action.type, str))


def read_env_file(p, path, environment):
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except OSError as e:
        p.error(f"env_file: {path}: {e.strerror}")
    except UnicodeDecodeError:
        p.error(f"env_file: {path}: not a text in UTF-8")
    for line in lines:
        line = line.strip().removeprefix("export ")
        key, found, value = line.partition("=")
        if not found or line.startswith("#"):
            continue
        if not key.strip() or "\0" in line:
            p.error(f"env_file: {path}: {line!r} cannot be a variable")
        environment.setdefault(key.strip(), env_value(value.strip()))


def env_value(text):
    """Return a value without its quotes, or without the comment that follows it."""
    if text[:1] in ("'", '"') and (end := text.find(text[0], 1)) > 0:
        return text[1:end]
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip() if not text.startswith("#") else ""


def main():
    open_missing()
    try:
        return serve(read_config(sys.argv[1:], os.environ))
    except KeyboardInterrupt:  # before the server handles signals, as while it imports the app
        return 130


def serve(config):
    from .errors import StartError
    from .importing import AppError
    from .logs import set_up_logging
    from .serving import Server

    try:
        set_up_logging(config.log_level, config.log_config)
        if "SPINDLE_WORKER_CONTROL" in os.environ:
            from .worker import worker_of

            return worker_of(config, os.environ).run()
        if config.supervised:
            from .workers import Supervisor

            return Supervisor(config, sys.argv[1:]).run()
        if config.interpreters > 1:
            from .interpreters import InterpretersServer

            return InterpretersServer(config).run()
        return Server(config).run()
    except (AppError, StartError) as e:
        print(e, file=sys.stderr)
        return 1
