"""Files that Go serves: --static."""

import gzip
import json
import os
import re

import pytest

from .conftest import wait_until


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_static_files(serve, tmp_path):
    (tmp_path / "a.txt").write_text("0123456789")
    (tmp_path / "b.css").write_text("plain")
    (tmp_path / "b.css.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "secret").mkdir()
    client = serve(hello, static=[("/assets", str(tmp_path))]).connect()
    assert client.get("/assets/a.txt").body == b"0123456789"
    assert client.get("/assets/a.txt", headers="Range: bytes=2-4\n").body == b"234"
    packed = client.get("/assets/b.css", headers="Accept-Encoding: gzip\n")
    assert (gzip.decompress(packed.body), packed["content-encoding"]) == (b"packed", "gzip")
    assert packed["content-type"].startswith("text/css")
    assert client.get("/assets/b.css").body == b"plain"
    assert client.get("/assets/missing").status == 404
    assert client.get("/assets/../../etc/passwd").status in (301, 307, 400, 404)
    assert client.get("/other").body == b"hello"


@pytest.mark.parametrize("encoding, suffix", [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")])
def test_compressed_static_files(serve, tmp_path, encoding, suffix):
    (tmp_path / "a.js").write_text("plain")
    (tmp_path / ("a.js" + suffix)).write_bytes(b"packed")
    client = serve(hello, static=[("/assets/", str(tmp_path))]).connect()
    packed = client.get("/assets/a.js", headers=f"Accept-Encoding: x, {encoding};q=0.5\n")
    assert (packed.body, packed["content-encoding"], packed["vary"]) == (b"packed", encoding, "Accept-Encoding")
    part = client.get("/assets/a.js", headers=f"Accept-Encoding: {encoding}\nRange: bytes=0-1\n")
    assert (part.status, part.body) == (206, b"pa")
    for accepted in ("identity", f"{encoding};q=0", f"{encoding};q=0.0"):
        plain = client.get("/assets/a.js", headers=f"Accept-Encoding: {accepted}\n")
        assert (plain.body, plain["vary"]) == (b"plain", "Accept-Encoding")
    assert client.get("/assets/a.js", headers="Range: bytes=9-\n").status == 416
    assert client.get("/assets/a.js", method="HEAD").body == b""


def test_files_outside_the_directory(serve, tmp_path):
    served, outside = tmp_path / "served", tmp_path / "outside"
    served.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (outside / "secret.txt.gz").write_text("secret")
    (served / "inside.txt").write_text("inside")
    (served / "directory").symlink_to("../outside")
    (served / "file.txt").symlink_to("../outside/secret.txt")
    (served / "inside.txt.gz").symlink_to("../outside/secret.txt.gz")
    (served / "link.txt").symlink_to("inside.txt")
    os.mkfifo(served / "pipe")
    client = serve(hello, static=[("/assets", str(served))]).connect()
    for path in ("directory/secret.txt", "file.txt", "pipe", "../outside/secret.txt", "%2e%2e/outside/secret.txt",
                 "..%2foutside%2fsecret.txt", "..%5coutside%5csecret.txt", "x/%2e%2e/../../outside/secret.txt", "inside.txt%00"):
        assert client.get(f"/assets/{path}").status == 404, path
    assert client.get("/assets/link.txt").body == b"inside"
    assert client.get("/assets/inside.txt", headers="Accept-Encoding: gzip\n").body == b"inside"


def test_directory_is_its_index(serve, tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "with" / "index.html").write_text("<p>index")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "private.txt").write_text("x")
    client = serve(hello, static=[("/assets", str(tmp_path))]).connect()
    for path in ("", "without", "without/", "with/index.html/"):
        response = client.get(f"/assets/{path}")
        assert response.status == 404 and b"private" not in response.body, path
    index = client.get("/assets/with/")
    assert (index.body, index["content-type"]) == (b"<p>index", "text/html; charset=utf-8")
    redirect = client.get("/assets/with?a=b")
    assert (redirect.status, redirect["location"]) == (301, "with/?a=b")


def test_methods_of_files(serve, tmp_path):
    (tmp_path / "a.txt").write_text("0123456789")
    client = serve(hello, static=[("/assets", str(tmp_path))]).connect()
    for method in ("POST", "PUT", "DELETE"):
        response = client.get("/assets/a.txt", method=method)
        assert (response.status, response["allow"]) == (405, "GET, HEAD")
    head = client.get("/assets/a.txt", method="HEAD")
    assert (head.status, head["content-length"]) == (200, "10")


@pytest.mark.parametrize("accepted", ["", "Accept-Encoding: br\n"])
def test_file_that_the_client_has(serve, tmp_path, accepted):
    (tmp_path / "a.txt").write_text("0123456789")
    (tmp_path / "a.txt.br").write_text("packed")
    client = serve(hello, static=[("/assets", str(tmp_path))]).connect()
    first = client.get("/assets/a.txt", headers=accepted)
    again = client.get("/assets/a.txt", headers=f"{accepted}If-None-Match: {first['etag']}\n")
    assert (again.status, again.body, again["etag"]) == (304, b"", first["etag"])
    since = client.get("/assets/a.txt", headers=f"{accepted}If-Modified-Since: {first['last-modified']}\n")
    assert since.status == 304
    part = client.get("/assets/a.txt", headers=f"{accepted}Range: bytes=1-2\nIf-Range: {first['etag']}\n")
    assert (part.status, part.body) == (206, first.body[1:3])
    other = client.get("/assets/a.txt", headers="" if accepted else "Accept-Encoding: br\n")
    assert other["etag"] != first["etag"]  # of the file, or of its compressed form
    whole = client.get("/assets/a.txt", headers=f"{accepted}Range: bytes=1-2\nIf-Range: {other['etag']}\n")
    assert (whole.status, whole.body) == (200, first.body)


def test_large_file_arrives_whole(serve, tmp_path):
    content = os.urandom(3 << 20)
    (tmp_path / "large.bin").write_bytes(content)
    (tmp_path / "large.bin.gz").write_bytes(content[::-1])
    client = serve(hello, static=[("/assets", str(tmp_path))]).connect()
    assert client.get("/assets/large.bin").body == content
    assert client.get("/assets/large.bin", headers="Range: bytes=1000000-2999999\n").body == content[1000000:3000000]
    packed = client.get("/assets/large.bin", headers="Accept-Encoding: gzip\n")
    assert (packed.body, packed["content-length"]) == (content[::-1], str(len(content)))


def test_files_are_counted(serve, tmp_path):
    (tmp_path / "a.txt").write_text("0123456789")
    client = serve(hello, static=[("/assets", str(tmp_path))], metrics="/metrics", health="/healthz").connect()
    client.get("/assets/a.txt")
    client.get("/assets/missing")
    client.get("/healthz")  # not counted
    metrics = client.get("/metrics").body.decode()
    assert 'spindle_requests_total{status="2xx"} 1\n' in metrics
    assert 'spindle_requests_total{status="4xx"} 1\n' in metrics
    assert "spindle_requests_active 0\n" in metrics
    assert "spindle_response_bytes_total 29\n" in metrics


def test_files_are_in_the_access_log(command):
    (command.directory / "a.txt").write_text("0123456789")
    server = command("app:app", "--port", "0", "--static", f"/assets={command.directory}", "--health", "/healthz",
                     "--access-log-format", "json")
    client = server.connect()
    client.get("/assets/a.txt?v=1", headers="Referer: r\nUser-Agent: u\nX-Forwarded-For: 192.0.2.7\n")
    client.get("/assets/missing", method="HEAD")
    client.get("/healthz")  # not logged
    client.get("/app")
    server.stop()
    wait_until(lambda: len(server.out) >= 3)
    lines = [json.loads(line) for line in server.out]
    assert [(e["method"], e["target"], e["status"], e["bytes"]) for e in lines] == [
        ("GET", "/assets/a.txt?v=1", 200, 10), ("HEAD", "/assets/missing", 404, 19), ("GET", "/app", 200, 5)]
    assert (lines[0]["remote"], lines[0]["referer"], lines[0]["user_agent"]) == ("192.0.2.7", "r", "u")


@pytest.mark.parametrize("path", ["/app", "/assets/a.txt", "/assets/missing", "/assets/", "/healthz", "/readyz", "/metrics", "/fails"])
@pytest.mark.parametrize("defaults", [True, False])
def test_responses_have_the_default_fields(serve, tmp_path, path, defaults):
    async def app(scope, receive, send):
        assert scope["path"] != "/fails"
        await hello(scope, receive, send)

    (tmp_path / "a.txt").write_text("x")
    server = serve(app, static=[("/assets", str(tmp_path))], metrics="/metrics", health="/healthz", ready="/readyz",
                   headers=[("X-One", "1"), ("X-Two", "2")], server_header=defaults, date_header=defaults)
    response = server.connect().get(path)
    assert (response.all("x-one"), response.all("x-two")) == (["1"], ["2"])
    assert response.all("server") == (["spindle"] if defaults else [])
    assert len(response.all("date")) == defaults
    if defaults:
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", response["date"])
