import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)

class Loop(asyncio.SelectorEventLoop):
    block_report_after: float
    def __init__(self) -> None: ...
    async def create_datagram_endpoint(
        self,
        protocol_factory: Callable[[], _Protocol],
        local_addr: tuple[str, int] | str | None = None,
        remote_addr: tuple[str, int] | str | None = None,
        *,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
        allow_broadcast: bool | None = None,
        sock: socket.socket | None = None,
    ) -> tuple[asyncio.DatagramTransport, _Protocol]: ...
