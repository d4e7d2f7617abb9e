"""A FastAPI app."""

import os

from fastapi import FastAPI, Request, WebSocket
from pydantic import BaseModel

app = FastAPI()


class Item(BaseModel):
    name: str
    price: float


@app.get("/items/{number}")
async def item(number: int, request: Request):
    return {"number": number, "url": str(request.url_for("item", number=number)),
            "client": f"{request.client.host}:{request.client.port}",
            "root": request.scope["root_path"], "path": request.scope["path"],
            "query": request.url.query, "headers": dict(request.headers)}


@app.post("/items")
async def add(item: Item):
    return {"name": item.name, "twice": item.price * 2}


@app.get("/thread")
def thread():
    return os.getpid()


@app.websocket("/echo")
async def echo(socket: WebSocket):
    await socket.accept(subprotocol="words" if "words" in socket.scope["subprotocols"] else None)
    async for text in socket.iter_text():
        await socket.send_text(f"{socket.scope['root_path']}: {text}")
