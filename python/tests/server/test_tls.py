"""Keys with a password, and which certificates clients must have."""

import contextlib
import logging
import socket
import ssl
import subprocess
import sys
import textwrap

import pytest
from spindle.server import Config
from spindle.server.config import REFUSED_TLS, TLS_VERSIONS
from spindle.server.serving import Server, StartError

from .conftest import LIMIT, Client, wait_until

PASSWORD = "open sesame"
FORMATS = {
    "aes256": ["pkcs8", "-topk8", "-v2", "aes-256-cbc"],
    "aes192, sha512": ["pkcs8", "-topk8", "-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA512"],
    "aes128, sha1": ["pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"],
    "triple des": ["pkcs8", "-topk8", "-v2", "des3"],
    "old": ["rsa", "-aes256", "-traditional"],
}


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


def encrypt(certificate, directory, command):
    """Return the path of the key, encrypted."""
    path = directory / "encrypted.pem"
    subprocess.run(["openssl", *command, "-in", certificate / "key.pem", "-out", path, "-passout", f"pass:{PASSWORD}"],
                   check=True, capture_output=True)
    return str(path)


def get(port, certificate, chain=None):
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    if chain is not None:
        context.load_cert_chain(*chain)
    with contextlib.closing(Client(context.wrap_socket(socket.create_connection(("127.0.0.1", port), LIMIT)))) as client:
        return client.get().body


@pytest.mark.parametrize("format", FORMATS)
def test_key_with_a_password(serve, certificate, tmp_path, format):
    key = encrypt(certificate, tmp_path, FORMATS[format])
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=key, ssl_keyfile_password=PASSWORD)
    assert get(server.port, certificate) == b"https"


def test_password_for_a_key_that_needs_none(serve, certificate):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"), ssl_keyfile_password="x")
    assert get(server.port, certificate) == b"https"


@pytest.mark.parametrize("format, password, message", [
    ("aes256", "wrong", "the password of the key is wrong"),
    ("old", "wrong", "the password of the key is wrong"),
    ("scrypt", PASSWORD, "in a way that is not supported; openssl pkcs8"),
])
def test_key_that_cannot_be_decrypted(certificate, tmp_path, format, password, message):
    key = encrypt(certificate, tmp_path, FORMATS.get(format) or ["pkcs8", "-topk8", "-scrypt"])
    config = Config(app=app, port=0, lifespan="off", ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=key, ssl_keyfile_password=password)
    with pytest.raises(StartError, match=message):
        Server(config).run()


def test_password_is_not_among_the_arguments_of_workers(certificate, tmp_path):
    key = encrypt(certificate, tmp_path, FORMATS["aes256"])
    (tmp_path / "app.py").write_text(textwrap.dedent("""
        import sys
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": repr(sys.orig_argv).encode()})
    """))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = f"import spindle.server; spindle.server.serve('app:app', fd={listener.fileno()}, workers=2, lifespan='off', " \
                  f"ssl_certfile={str(certificate / 'cert.pem')!r}, ssl_keyfile={key!r}, ssl_keyfile_password={PASSWORD!r})"
        process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, pass_fds=[listener.fileno()])
        try:
            arguments = get(listener.getsockname()[1], certificate).decode()
        finally:
            process.terminate()
            process.wait(LIMIT)
    assert key in arguments and PASSWORD not in arguments


@pytest.mark.parametrize("demand, without, with_one", [(0, True, True), (1, True, True), (2, False, True), (None, False, True)])
def test_certificates_of_clients(serve, certificate, demand, without, with_one):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"),
                   ssl_ca_certs=str(certificate / "cert.pem"), ssl_cert_reqs=demand)
    for chain, accepted in ((None, without), ((certificate / "cert.pem", certificate / "key.pem"), with_one)):
        with contextlib.nullcontext() if accepted else pytest.raises((OSError, EOFError)):
            assert get(server.port, certificate, chain) == b"https"


def test_certificate_of_another_authority(serve, certificate, tmp_path):
    """An optional certificate must be a good one, too."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=other", "-keyout",
                    tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"),
                   ssl_ca_certs=str(certificate / "cert.pem"), ssl_cert_reqs=1)
    with pytest.raises((OSError, EOFError)):
        get(server.port, certificate, (tmp_path / "cert.pem", tmp_path / "key.pem"))


def negotiated(port, certificate, highest=None, ciphers=None):
    """Return the version and the cipher of a connection."""
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.check_hostname = False
    if highest is not None:
        context.maximum_version = highest
    if ciphers is not None:
        context.set_ciphers(ciphers)
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), LIMIT)) as sock:
        return sock.version(), sock.cipher()[0]


@pytest.mark.parametrize("version, highest", [(None, "TLSv1.3"), (17, "TLSv1.3"), (2, "TLSv1.3"), (5, "TLSv1.2")])
def test_versions(serve, certificate, version, highest):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"), ssl_version=version)
    assert negotiated(server.port, certificate)[0] == highest
    assert negotiated(server.port, certificate, ssl.TLSVersion.TLSv1_2)[0] == "TLSv1.2"


def test_versions_have_the_numbers_of_ssl(certificate):
    assert (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS, ssl.PROTOCOL_TLSv1_2) == TLS_VERSIONS
    for version in (ssl.PROTOCOL_TLSv1, ssl.PROTOCOL_TLSv1_1, ssl.PROTOCOL_TLS_CLIENT):
        with pytest.raises(ValueError, match=REFUSED_TLS[version]):
            Config(ssl_certfile=str(certificate / "cert.pem"), ssl_version=version)
    with pytest.raises(ValueError, match="not a protocol"):
        Config(ssl_certfile=str(certificate / "cert.pem"), ssl_version=99)


@pytest.mark.parametrize("list, cipher", [
    ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("ECDHE+CHACHA20", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("ECDHE+AESGCM:!AES256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("HIGH:!aNULL:!MD5:!AES:!3DES", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("HIGH:-AES:-RC4:+SHA1:@STRENGTH", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("ECDHE+AESGCM:-ECDHE:ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
])
def test_ciphers(serve, certificate, list, cipher):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"), ssl_ciphers=list)
    assert negotiated(server.port, certificate, ssl.TLSVersion.TLSv1_2) == ("TLSv1.2", cipher)
    assert negotiated(server.port, certificate)[0] == "TLSv1.3"  # which has ciphers of its own
    refused = ":".join({"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"} - {cipher})
    with pytest.raises(ssl.SSLError):
        negotiated(server.port, certificate, ssl.TLSVersion.TLSv1_2, refused)


@pytest.mark.parametrize("list, message", [
    ("nonsense", "no ciphers for \"nonsense\"; there are ECDHE-"),
    ("AES128-GCM-SHA256", "no ciphers for \"AES128-GCM-SHA256\""),  # its keys come from RSA
    ("TLSv1", "no ciphers for \"TLSv1\""),
    ("!-ECDHE:nonsense", "no ciphers for \"!-ECDHE\""),
    ("TLS_AES_128_GCM_SHA256", "is of TLS 1.3"),
    ("ECDHE+AESGCM:!AES", "leaves no cipher"),
    (":", "leaves no cipher"),
    ("!RC4", "leaves no cipher"),
    ("ECDHE-RSA-AES128-SHA", "HTTP/2 forbids"),
])
def test_ciphers_that_go_does_not_have(certificate, list, message):
    config = Config(app=app, port=0, lifespan="off", ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"), ssl_ciphers=list)
    with pytest.raises(StartError, match=message):
        Server(config).run()


def test_ciphers_that_go_does_not_have_are_left_out(serve, certificate, caplog):
    """As OpenSSL does: lists from elsewhere name them."""
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"),
                   ssl_ciphers="AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES256-GCM-SHA384:!kDHr")
    found = negotiated(server.port, certificate, ssl.TLSVersion.TLSv1_2)
    assert found == ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")
    wait_until(lambda: [r for r in caplog.records if "ssl_ciphers" in r.getMessage()])
    record, = (r for r in caplog.records if "ssl_ciphers" in r.getMessage())
    assert (record.name, record.levelno) == ("spindle.server", logging.WARNING)
    assert record.getMessage().endswith("left out: ciphers=AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256:!kDHr")


def test_ciphers_that_only_http1_allows(serve, certificate):
    server = serve(app, ssl_certfile=str(certificate / "cert.pem"), ssl_keyfile=str(certificate / "key.pem"), ssl_ciphers="ECDHE+AES128+SHA", http="1")
    found = negotiated(server.port, certificate, ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-SHA:ECDHE-RSA-AES256-SHA")
    assert found == ("TLSv1.2", "ECDHE-RSA-AES128-SHA")
