from .config import Config as Config
from .running import serve as serve
from .serving import ClientDisconnected as ClientDisconnected, Server as Server

__all__ = ["ClientDisconnected", "Config", "Server", "serve"]
