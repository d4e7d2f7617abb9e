import signal
import socket
from collections.abc import Sequence

from .config import Config

class ClientDisconnected(OSError): ...

class Server:
    stop_signals: tuple[signal.Signals, ...]
    config: Config
    started: bool
    exit_code: int
    def __init__(self, config: Config) -> None: ...
    def run(self, sockets: Sequence[socket.socket] | None = None) -> int: ...
    def stop(self) -> None: ...
    async def serve(self, sockets: Sequence[socket.socket] | None = None) -> None: ...
