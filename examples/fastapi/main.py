"""The app under /api."""

from fastapi import FastAPI, Request

app = FastAPI()


@app.get("/items/{number}")
async def item(number: int, request: Request):
    return {"number": number, "url": str(request.url), "client": request.client.host}
