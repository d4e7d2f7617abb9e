from .config import Config as Config
from .serving import ClientDisconnected as ClientDisconnected, Server as Server, serve as serve

__all__ = ["ClientDisconnected", "Config", "Server", "serve"]
