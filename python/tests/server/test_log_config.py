"""--log-config sets up Python's logging."""

import json
import logging

import pytest

from spindle.server import Config
from spindle.server.logs import configure
from spindle.server.serving import StartError

from .conftest import LIMIT

FORMAT = "mine %(levelname)s %(message)s"
CONFIG = {
    "version": 1, "disable_existing_loggers": False,
    "formatters": {"plain": {"format": FORMAT}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"spindle": {"handlers": ["err"], "level": "INFO"}},
}
TEXTS = {
    "log.json": json.dumps(CONFIG),
    "log.toml": f"""
        version = 1
        formatters.plain.format = "{FORMAT}"
        handlers.err = {{class = "logging.StreamHandler", formatter = "plain"}}
        loggers.spindle = {{handlers = ["err"], level = "INFO"}}""",
    "log.yaml": f"""
version: 1
formatters: {{plain: {{format: "{FORMAT}"}}}}
handlers: {{err: {{class: logging.StreamHandler, formatter: plain}}}}
loggers: {{spindle: {{handlers: [err], level: INFO}}}}""",
    "log.ini": f"""
[loggers]
keys=root,spindle
[handlers]
keys=err
[formatters]
keys=plain
[logger_root]
handlers=
[logger_spindle]
handlers=err
level=INFO
qualname=spindle
[handler_err]
class=StreamHandler
formatter=plain
[formatter_plain]
format={FORMAT}""",
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", TEXTS)
def test_every_format(command, name, workers):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    if workers > 1 and not name.endswith("json"):
        pytest.skip("once is enough")
    (command.directory / name).write_text(TEXTS[name])
    process = command("app:app", "--port", "0", "--log-config", name, "--workers", str(workers))
    process.wait_for_log(f"mine INFO spindle: {'serving on' if workers == 1 else 'supervisor'}")
    if workers > 1:
        process.wait_for_log("mine INFO spindle: worker", workers)
    assert process.stop() == 0
    process.readers_end()
    assert all(line.startswith("mine ") for line in process.errors().splitlines()), process.err


@pytest.mark.parametrize("name, text, error", [
    ("log.json", "{", "log.json: Expecting property name"),
    ("log.json", "{}", "log.json: dictionary doesn't specify a version"),
    ("log.json", json.dumps({**CONFIG, "handlers": {"err": {"class": "nowhere.Handler"}}}), "Unable to configure handler 'err'"),
    ("log.toml", "version", "log.toml: Expected '='"),
    ("log.ini", "[nonsense]", "log.ini: "),
    ("log", "nonsense", "log: "),
])
def test_wrong_files(command, name, text, error):
    (command.directory / name).write_text(text)
    process = command("app:app", "--port", "0", "--log-config", name)
    assert process.process.wait(LIMIT) == 1
    process.readers_end()
    assert len(process.err) == 1 and process.err[0].startswith("spindle: log_config: ") and error in process.err[0]


def test_dict():
    with pytest.raises(StartError, match="log_config: dict: dictionary doesn't specify a version"):
        configure({})
    with pytest.raises(ValueError, match="log_config must be a file if there are worker processes"):
        Config(app="app:app", workers=2, log_config=CONFIG)
    logger = logging.getLogger("spindle")
    before = logger.handlers, logger.level
    try:
        configure(Config(app="app:app", log_config=CONFIG).log_config)
        assert logger.handlers[0].formatter._fmt == FORMAT
    finally:
        logger.handlers, logger.level = before
