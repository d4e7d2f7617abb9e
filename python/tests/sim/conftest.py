import ssl
import subprocess

import pytest

from spindle.sim.system import hash_is_pinned


@pytest.fixture(autouse=True)
def hashes_are_pinned():
    if not hash_is_pinned():
        pytest.skip("set PYTHONHASHSEED=0: the order of sets differs in each process otherwise")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The file of a key for localhost with a certificate beside it (.crt), and the contexts of a server that has it and of a
    client that trusts every server."""
    path = str(tmp_path_factory.mktemp("tls") / "pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-days", "1", "-keyout", path, "-out", path + ".crt"],
        check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path + ".crt", path)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return path, context, client
