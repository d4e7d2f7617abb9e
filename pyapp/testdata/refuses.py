import cbor2  # which refuses subinterpreters


async def app(scope, receive, send):
    raise NotImplementedError(cbor2)
