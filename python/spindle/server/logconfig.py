"""Sets up Python's logging from a file, for --log-config."""

import json
import logging.config
import os

from .serving import StartError


def configure(source):
    """Apply a dict, or a file in the format that its name says: JSON, TOML, YAML, or the INI format of logging."""
    try:
        if isinstance(source, dict):
            logging.config.dictConfig(source)
        elif (read := READERS.get(os.path.splitext(source)[1].lower())) is not None:
            logging.config.dictConfig(read(source))
        else:
            logging.config.fileConfig(source, disable_existing_loggers=False)
    except StartError:
        raise
    except Exception as e:  # of a parser, or of a class that the file names
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
        raise StartError(f"spindle: log_config: {path}: YAML needs the package PyYAML; install it, or write JSON or TOML") from None
    with open(path, encoding="utf-8") as f:
        return yaml.safe_load(f)


READERS = {".json": _json, ".toml": _toml, ".yaml": _yaml, ".yml": _yaml}
