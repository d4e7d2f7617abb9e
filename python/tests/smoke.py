"""Tries an installed package, with nothing but the standard library: the loop, and the server.

    python smoke.py

It imports the package from where it is installed, so it must not be started in the source tree.
"""

import asyncio
import http.client
import os
import subprocess
import sys
import tempfile

APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"Hello, World!"})
"""


def maps():
    with open("/proc/self/maps") as file:
        return file.read()


async def echo_once():
    async def echo(reader, writer):
        writer.write(await reader.readexactly(5))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello")
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    server.close()
    return answer


def serve_once():
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "hello.py"), "w") as file:
            file.write(APP)
        server = subprocess.Popen(
            [sys.executable, "-m", "spindle", "hello:app", "--port", "0"], cwd=directory, stderr=subprocess.PIPE,
            text=True)
        try:
            for line in server.stderr:
                if "http://" in line:
                    break
            else:
                sys.exit("smoke: the server did not start")
            address = line.split("http://")[1].split()[0].rstrip("/")
            connection = http.client.HTTPConnection(address, timeout=10)
            connection.request("GET", "/")
            answer = connection.getresponse().read()
        finally:
            server.terminate()
            server.communicate()
    return answer, server.returncode


def main():
    import spindle

    assert "libspindle" not in maps(), "the import has loaded Go"
    assert spindle.run(echo_once()) == b"hello"
    assert "libspindle" in maps()
    answer, status = serve_once()
    assert (answer, status) == (b"Hello, World!", 0), (answer, status)
    print("smoke: Spindle", spindle.__version__, "on", sys.version.split()[0], os.uname().machine, "works")


if __name__ == "__main__":
    main()
