"""Sets up Python's logging, for the server and for --log-config."""

import json
import logging
import os

from .errors import StartError


def set_up_logging(level, config=None):
    """Log to standard error, unless the program has configured logging, or config says how.

    That goes for the log of the Go half too.
    """
    if config is not None:
        return configure(config)
    package = logging.getLogger("spindle")
    package.setLevel(getattr(logging, level.upper(), logging.INFO) if level != "trace" else logging.DEBUG)
    if not any(log.handlers for log in (logging.getLogger("spindle.server"), package, logging.getLogger())):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        package.addHandler(handler)


def configure(source):
    """Apply a dict, or a file in the format that its name says: JSON, TOML, YAML, or the INI format of logging."""
    import logging.config

    try:
        if isinstance(source, dict):
            logging.config.dictConfig(source)
        elif (read := READERS.get(os.path.splitext(source)[1].lower())) is not None:
            logging.config.dictConfig(read(source))
        else:
            logging.config.fileConfig(source, disable_existing_loggers=False)
    except Exception as e:  # of a parser, of a class that the file names, or of a package that is missing
        reason = f"{e}: {e.__cause__}" if e.__cause__ is not None else str(e)
        raise StartError(f"spindle: log_config: {source if isinstance(source, str) else 'dict'}: {' '.join(reason.split())}") from None


def _json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def _toml(path):
    import tomllib

    with open(path, "rb") as f:
        return tomllib.load(f)


def _yaml(path):
    try:
        import yaml
    except ImportError:
        raise ImportError("YAML needs the package PyYAML; install it, or write JSON or TOML") from None
    with open(path, encoding="utf-8") as f:
        return yaml.safe_load(f)


READERS = {".json": _json, ".toml": _toml, ".yaml": _yaml, ".yml": _yaml}
