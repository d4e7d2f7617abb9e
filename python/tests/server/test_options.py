"""Every option with every kind of wrong value: one line says what is wrong."""

import argparse
import signal
import socket

import pytest

from spindle.server import Config
from spindle.server.cli import from_pyproject, parser, read_config
from spindle.server.serving import StartError, bind

from .conftest import LIMIT

OPTIONS = {action.dest: action for action in parser()._actions if action.dest not in ("help", "version")}
HUGE = str(10**30)
NUMBERS = ["x", "", " ", "-1", "nan", "inf", "-inf", HUGE, "1e30", "1,5", "0x10", "\udc80"]
LONG = "x" * 300

# Wrong texts, beside those of an option's type.
WRONG = {
    "app": [""],
    "host": ["x" * 70 + ".invalid", LONG, "256.256.256.256", "127.0.0.1:80", "\udc80"],
    "port": ["65536"],
    "uds": ["", "x" * 108, LONG, "missing/socket", "file/socket", "."],
    "fd": ["77", "file"],
    "backlog": ["0"],
    "app_dir": ["missing", "file", LONG, "\udc80"],
    "root_path": ["\udc80"],
    "env_file": ["missing", ".", LONG, "binary", "nameless"],
    "wsgi_threads": ["0"],
    "workers": ["0", "100000"],
    "interpreters": ["0", "257"],
    "reload_dirs": ["missing", "file"],
    "limit_memory": ["0"],
    "timeout_worker_healthcheck": ["0", "0.01"],
    "log_config": ["missing", ".", LONG],
    "ssl_certfile": [""],
    "ssl_keyfile": ["", "key.pem"],
    "ssl_keyfile_password": ["", "x"],
    "ssl_ca_certs": ["", "ca.pem"],
    "ssl_cert_reqs": ["3", "1"],
    "ssl_version": ["17", "3", "4", "16", "99"],  # 17 needs a certificate
    "ssl_ciphers": ["", "ECDHE+AESGCM"],
    "forwarded_allow_ips": [],
    "headers": ["x", "x y: z", ": z", "x: a\nb", "x: \u20ac", "Content-Length: 1"],
    "static": ["x", "/a", "a=.", "/a=missing", "/a=file", "=."],
    "metrics": ["metrics"],
    "health": ["health"],
    "ready": ["ready"],
}
# Values of pyproject.toml, by the types of options that they are right for.
VALUES = {"7": (int, float), "1.5": (float,), "true": (bool,), '"text"': (str,), "[]": (list,), "[7]": (), "{a = 1}": (), "1979-05-27": ()}


def kind(action):
    if isinstance(action, (argparse._StoreTrueAction, argparse.BooleanOptionalAction)):
        return bool
    return list if isinstance(action, argparse._AppendAction) else action.type or str


def wrong_texts(name):
    action = OPTIONS[name]
    texts = list(WRONG.get(name, []))
    if kind(action) in (int, float):
        texts += NUMBERS + (["1.5"] if kind(action) is int else [])
    if action.choices:
        texts += ["x", "", "AUTO", "\udc80"]
    return texts


@pytest.fixture
def start(tmp_path, monkeypatch, capsys):
    """Start a server as far as its configuration matters, and return what it writes to standard error when it fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "binary").write_bytes(b"A=\xff\n")
    (tmp_path / "nameless").write_text("=x\n")

    def run(arguments, environment):
        try:
            bind(read_config(arguments, environment)).close()
        except SystemExit as e:
            assert e.code
            return capsys.readouterr().err
        except StartError as e:
            return f"{e}\n"
        return None

    return run


def check(error, what):
    assert error is not None, f"{what} is accepted"
    assert error.startswith("spindle: ") and error.count("\n") == 1 and error.endswith("\n"), (what, error)
    assert "None" not in error.replace("'None'", "") and "object" not in error, (what, error)


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_texts(start, name):
    action, others = OPTIONS[name], ["--port", "0"] if name != "port" else []
    for text in wrong_texts(name):
        app = [] if name == "app" else ["app:app"]
        argument = [text] if name == "app" else [f"{action.option_strings[0]}={text}"]
        check(start(app + others + argument, {}), f"{argument}")
        if "\udc80" not in text and not (text == "" and kind(action) in (list, str)):  # an empty variable may mean none
            check(start(app + others, {f"SPINDLE_{name.upper()}": text}), f"{name}={text} in the environment")
    if kind(action) is bool:
        for text in ("perhaps", "2", " "):
            check(start(["app:app", *others], {f"SPINDLE_{name.upper()}": text}), f"{name}={text} in the environment")
        check(start(["app:app", *others, f"{action.option_strings[0]}=perhaps"], {}), name)
    elif name != "app":
        check(start(["app:app", *others, action.option_strings[0]], {}), f"{name} without a value")


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_values_of_pyproject(start, tmp_path, name):
    file = tmp_path / "pyproject.toml"
    for value, kinds in VALUES.items():
        if kind(OPTIONS[name]) not in kinds or OPTIONS[name].choices or name == "env_file":
            file.write_text(f"[tool.spindle.server]\n{name} = {value}\n")
            check(start(["app:app", "--port", "0"] if name not in ("app", "port") else [], {}), f"{name} = {value}")
    if kind(OPTIONS[name]) is str:
        file.write_text(f'[tool.spindle.server]\n{name} = "/a\\u0000b"\n')
        if name != "app":  # which is not looked for here
            check(start(["app:app", "--port", "0"], {}), f"{name} with a zero byte")


@pytest.mark.parametrize("text", [
    b"tool = 3", b"[tool]\nspindle = 3", b"[tool.spindle]\nserver = 3", b"[tool.spindle]\nserver = []", b"[tool.spindle.server]\nx = 1",
    b"[tool.spindle]\nport = 1", b"[[tool]]", b"nonsense", b"a = '\xff'", b"[tool.spindle.server]\nversion = true", b"[tool.spindle.server]\nhelp = 1"])
def test_wrong_pyproject(start, tmp_path, text):
    (tmp_path / "pyproject.toml").write_bytes(text)
    check(start(["app:app", "--port", "0"], {}), text)


def test_pyproject_that_cannot_be_read(start, tmp_path):
    (tmp_path / "pyproject.toml").mkdir()
    check(start(["app:app", "--port", "0"], {}), "a directory")


@pytest.mark.parametrize("text", ["x", "-1", "0", "1.5", "nan", HUGE, "\u00b2", "\u0663"])
def test_wrong_web_concurrency(start, text):
    check(start(["app:app", "--port", "0"], {"WEB_CONCURRENCY": text}), text)


def test_right_values_are_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert from_pyproject(parser()) == {}
    config = Config(app="x:y", app_dir=tmp_path, uds=tmp_path / "socket", timeout_keep_alive=0, timeout_body=1, static=(("/a", "."),))
    assert (config.app_dir, config.uds) == (str(tmp_path), str(tmp_path / "socket"))


@pytest.mark.parametrize("arguments", [["--wsgi-threads", "0"], ["--limit-max-requests-jitter=-5"], ["--timeout-body", "nan"],
                                       ["--uds", "x" * 200], ["--fd", "0"], ["--workers=2", "--uds", LONG]])
def test_process_says_it_in_one_line_and_fails(command, arguments):
    process = command("app:app", "--port", "0", *arguments)
    assert process.process.wait(LIMIT) in (1, 2)
    process.readers_end()
    check(process.errors(), arguments)


def test_interrupt_during_the_import(command):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (command.directory / "slow.py").write_text(
            f"import socket, time\nsocket.create_connection({listener.getsockname()}).recv(1)\n")
        process = command("slow:app", "--port", "0")
        listener.settimeout(LIMIT)
        with listener.accept()[0]:  # the import waits
            process.process.send_signal(signal.SIGINT)
            assert process.process.wait(LIMIT) == 130
    process.readers_end()
    assert process.errors() == ""
