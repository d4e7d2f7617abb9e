"""The app "plaintext" for Robyn, which runs no ASGI apps."""

import sys

from robyn import Response, Robyn

app = Robyn(__file__)


@app.get("/")
async def plaintext(request):
    return Response(200, {"content-type": "text/plain"}, "Hello, world!")


app.start(host="127.0.0.1", port=int(sys.argv[1]))
