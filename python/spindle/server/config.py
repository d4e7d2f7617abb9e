"""The configuration of a server."""

import dataclasses
import ipaddress
import os
import re

COUNT = 2**31 - 1
SIZE = 2**53
FOREVER = 1e9  # seconds; more than Go's times can have is an error there

# The least and the greatest value of each option that is a number. A limit of 0 means none.
RANGES = {
    "port": (0, 65535), "fd": (0, COUNT), "backlog": (1, COUNT), "workers": (1, 1024), "interpreters": (1, 256), "wsgi_threads": (1, COUNT),
    "limit_concurrency": (0, COUNT), "limit_max_requests": (0, COUNT), "limit_max_requests_jitter": (0, COUNT),
    "limit_connections": (0, COUNT), "http2_max_concurrent_streams": (1, COUNT), "limit_header_size": (0, COUNT), "limit_header_fields": (0, COUNT),
    "limit_request_line": (0, COUNT), "limit_body_size": (0, SIZE), "limit_memory": (1, COUNT), "ws_max_size": (0, SIZE), "ws_max_queue": (0, COUNT), "ssl_cert_reqs": (0, 2),
    "timeout_worker_healthcheck": (0.1, FOREVER), "reload_delay": (0, FOREVER),
    **dict.fromkeys(("timeout_keep_alive", "timeout_header", "timeout_body", "timeout_write", "timeout_graceful_shutdown",
                     "ws_ping_interval", "ws_ping_timeout"), (0, FOREVER)),
}
CHOICES = {
    "http": ("auto", "1", "2"),
    "interface": ("auto", "asgi3", "asgi2", "wsgi"),
    "lifespan": ("auto", "on", "off"),
    "log_level": ("critical", "error", "warning", "info", "debug", "trace"),
    "access_log_format": ("common", "combined", "json"),
}
# Protocols by their numbers in the module ssl, which is not imported for them.
TLS_VERSIONS = (17, 2, 5)  # PROTOCOL_TLS_SERVER, PROTOCOL_TLS, PROTOCOL_TLSv1_2
REFUSED_TLS = {
    0: "SSL 2 is not served", 1: "SSL 3 is not served", 3: "TLS 1.0 is not served, it is not secure", 4: "TLS 1.1 is not served, it is not secure",
    16: "PROTOCOL_TLS_CLIENT is for clients",
}


@dataclasses.dataclass
class Config:
    """What to serve, where, and with which limits.

    Options have uvicorn's names where they mean the same. Times are in seconds.
    """

    # Seconds that connections are kept for one more request when the server stops. Not an option.
    drain_idle = 1.0

    # What helps if there is no module of the app's name. Not an option.
    find_module = "start the server where the module is, or set app_dir (the command's --app-dir)"

    # Where a worker counts for the metrics: the descriptor of shared memory, and a slot. Not an option.
    tally = None

    app: object = None  #: an app, or where to import it from: "module:attribute" or "file.py"
    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None  #: path of a Unix socket, instead of host and port
    fd: int | None = None  #: a socket that listens already, instead of host and port
    backlog: int = 2048
    interface: str = "auto"  #: auto, asgi3, asgi2 or wsgi
    factory: bool = False  #: app is a function that returns the app
    app_dir: str | None = None  #: where to look for modules; None means the working directory
    root_path: str = ""
    lifespan: str = "auto"  #: auto, on or off
    workers: int = 1
    interpreters: int = 1  #: in one process, each with its own GIL; from CPython 3.13 on
    reload: bool = False  #: start again when a file changes
    reload_dirs: list = dataclasses.field(default_factory=list)
    reload_includes: list = dataclasses.field(default_factory=list)  #: patterns of files to watch, beside *.py
    reload_excludes: list = dataclasses.field(default_factory=list)  #: patterns of files, and directories, not to watch
    reload_delay: float = 0.25  #: between two looks at the files

    log_level: str = "info"
    log_config: str | dict | None = None  #: for logging.config: a file of JSON, TOML, YAML or INI, or a dict
    access_log: bool = True
    access_log_format: str = "common"  #: common, combined or json

    proxy_headers: bool = True  #: believe X-Forwarded-For and X-Forwarded-Proto of trusted peers
    forwarded_allow_ips: str = "127.0.0.1,::1"  #: the trusted peers: addresses, networks, or * for all
    server_header: bool = True
    date_header: bool = True
    headers: list = dataclasses.field(default_factory=list)  #: pairs of strings, for every response

    limit_concurrency: int | None = None  #: apps that run at a time; others are answered with 503
    limit_max_requests: int | None = None  #: requests after which the server stops
    limit_max_requests_jitter: int = 0  #: up to so many more, by chance
    limit_connections: int | None = None  #: open connections; others wait
    limit_header_size: int | None = None  #: bytes of a request's header
    limit_header_fields: int | None = None  #: fields of a request's header
    limit_request_line: int | None = None  #: bytes of a request's first line, which has the URL
    limit_body_size: int | None = None  #: bytes of a request's body
    limit_memory: int | None = None  #: megabytes that a worker may hold before it is replaced

    timeout_keep_alive: float = 5  #: for the next request of a connection
    timeout_header: float | None = None  #: for the header of a request
    timeout_body: float | None = None  #: for the next piece of a request's body
    timeout_write: float | None = None  #: for a client that does not read
    timeout_graceful_shutdown: float | None = None  #: for requests under way when the server stops
    timeout_worker_healthcheck: float | None = None  #: for a worker that blocks its loop, before it is killed and replaced

    http: str = "auto"  #: auto, 1 or 2: HTTP/1.1 and HTTP/2, or only one of them
    http2_max_concurrent_streams: int = 250  #: requests of a connection that are answered at a time
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None  #: the authorities of clients' certificates
    ssl_cert_reqs: int | None = None  #: 0 for no certificates of clients, 1 for optional, 2 for required ones, the default with ssl_ca_certs

    ssl_version: int | None = None  #: ssl.PROTOCOL_TLS_SERVER for TLS 1.2 and later, the default, or ssl.PROTOCOL_TLSv1_2 for that alone
    ssl_ciphers: str | None = None  #: of TLS 1.2, as OpenSSL lists them: "ECDHE+AESGCM:!AES256", for example

    ws_max_size: int = 16 * 1024 * 1024
    ws_max_queue: int | None = None  #: messages that wait for the app before the client is not read any more; 64 KB in any case
    ws_ping_interval: float = 20
    ws_ping_timeout: float = 20
    ws_per_message_deflate: bool = True

    wsgi_threads: int = 32
    static: list = dataclasses.field(default_factory=list)  #: pairs of a prefix and a directory
    metrics: str | None = None  #: path where Go answers with metrics for Prometheus
    health: str | None = None  #: path where Go answers 200 while the process lives
    ready: str | None = None  #: path where Go answers 200 unless the server is stopping

    def __post_init__(self):
        for field in dataclasses.fields(self):
            self._check(field)
        for name, directories in (("app_dir", [self.app_dir] if self.app_dir else []), ("reload_dirs", self.reload_dirs)):
            for directory in directories:
                if not os.path.isdir(directory):
                    raise ValueError(f"spindle: {name}: there is no directory {directory}")
        if isinstance(self.log_config, str) and not os.path.isfile(self.log_config):
            raise ValueError(f"spindle: log_config: there is no file {self.log_config}")
        if self.supervised and isinstance(self.log_config, dict):
            raise ValueError("spindle: log_config must be a file if there are worker processes, which cannot be given a dict")
        if self.interpreters > 1 and self.supervised:
            raise ValueError("spindle: interpreters cannot be used with workers, reload, limit_memory or timeout_worker_healthcheck, "
                             "which replace processes")
        if self.interpreters > 1 and isinstance(self.log_config, dict):
            raise ValueError("spindle: log_config must be a file if there are several interpreters, which cannot be given a dict")
        if self.ssl_certfile is None and any(v is not None for v in (
                self.ssl_keyfile, self.ssl_keyfile_password, self.ssl_ca_certs, self.ssl_version, self.ssl_ciphers)):
            raise ValueError("spindle: TLS needs a certificate: ssl_certfile")
        if self.ssl_cert_reqs and self.ssl_ca_certs is None:
            raise ValueError("spindle: ssl_cert_reqs needs the authorities of clients' certificates: ssl_ca_certs")
        if self.ssl_version not in (None, *TLS_VERSIONS):
            raise ValueError(f"spindle: ssl_version {self.ssl_version}: {REFUSED_TLS.get(self.ssl_version, 'not a protocol of the module ssl')}; "
                             "17 is for TLS 1.2 and later, 5 for TLS 1.2 alone")
        for name in ("metrics", "health", "ready"):
            path = getattr(self, name)
            if path and not path.startswith("/"):
                raise ValueError(f"spindle: {name} must be a path that begins with /, not {path!r}")
        for prefix, directory in self.static:
            if not prefix.startswith("/"):
                raise ValueError(f"spindle: static must have a prefix that begins with /, not {prefix!r}")
            if not os.path.isdir(directory):
                raise ValueError(f"spindle: static {prefix}: there is no directory {directory}")
        for name, value in self.headers:
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[^\t -~\x80-\xff]", value):
                raise ValueError(f"spindle: {name!r}: {value!r} cannot be a header field")
            if name.lower() in ("connection", "content-length", "transfer-encoding"):
                raise ValueError(f"spindle: {name} differs from response to response, so it cannot be a field of all")

    def _check(self, field):
        """Check one option by itself."""
        name, value = field.name, getattr(self, field.name)
        if isinstance(value, os.PathLike) and name != "app":
            value = os.fspath(value)
            setattr(self, name, value)
        if not _fits(value, field.type):
            raise TypeError(f"spindle: {name} cannot be {value!r}")
        if value is None:
            return
        if name in RANGES:
            least, greatest = RANGES[name]
            if not least <= value <= greatest:  # as NaN is not
                raise ValueError(f"spindle: {name} must be from {least:g} to {greatest:.0f}, not {value}")
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"spindle: {name} must be one of {', '.join(CHOICES[name])}, not {value!r}")
        if name in ("uds", "ssl_certfile", "ssl_keyfile", "ssl_keyfile_password", "ssl_ca_certs", "ssl_ciphers") and not value:
            raise ValueError(f"spindle: {name} must not be empty")
        if isinstance(value, str) and ("\0" in value or name in ("host", "root_path") and not _is_unicode(value)):
            raise ValueError(f"spindle: {name} cannot be {value!r}")

    @property
    def supervised(self):
        """Whether another process starts those that serve, and replaces them."""
        return self.workers > 1 or self.reload or self.limit_memory is not None or self.timeout_worker_healthcheck is not None

    @property
    def secure(self):
        return self.ssl_certfile is not None

    def _drain_idle(self):
        limit = self.timeout_graceful_shutdown
        return self.drain_idle if limit is None else min(self.drain_idle, limit / 2)

    @property
    def server_name(self):
        """The field Server of a response if the app does not set it; empty for none."""
        named = [value for name, value in self.headers if name.lower() == "server"]
        return named[-1] if named else "spindle" if self.server_header else ""

    @property
    def dated(self):
        """Whether the server adds the field Date."""
        return self.date_header and not any(name.lower() == "date" for name, _ in self.headers)

    @property
    def other_headers(self):
        return [(name, value) for name, value in self.headers if name.lower() != "server"]

    def for_go(self, fds):
        """Return what the Go half needs; see libspindle/config.go."""

        def time(seconds):
            return 0 if seconds is None else seconds or -1

        return {
            "fds": fds,
            "http": self.http,
            "max_streams": self.http2_max_concurrent_streams,
            "cert_file": self.ssl_certfile or "",
            "key_file": self.ssl_keyfile or "",
            "key_password": self.ssl_keyfile_password or "",
            "ca_file": self.ssl_ca_certs or "",
            "cert_reqs": ("none", "optional", "required")[2 if self.ssl_cert_reqs is None else self.ssl_cert_reqs],
            "only_tls12": self.ssl_version == 5,
            "ciphers": self.ssl_ciphers or "",
            "header_timeout": time(self.timeout_header),
            "body_timeout": time(self.timeout_body),
            "idle_timeout": time(self.timeout_keep_alive),
            "drain_idle": self._drain_idle(),
            "write_timeout": time(self.timeout_write),
            "max_header_bytes": self.limit_header_size or 0,
            "max_header_fields": self.limit_header_fields or 0,
            "max_request_line": self.limit_request_line or 0,
            "max_body_bytes": self.limit_body_size or 0,
            "max_connections": self.limit_connections or 0,
            "access_log": self.access_log_format if self.access_log else "",
            "ws_max_size": self.ws_max_size,
            "ws_max_queue": self.ws_max_queue or 0,
            "ws_ping_interval": self.ws_ping_interval or 0,
            "ws_ping_timeout": self.ws_ping_timeout or 0,
            "ws_compress": self.ws_per_message_deflate,
            "server": self.server_name,
            "date": self.dated,
            "fields": self.other_headers,
            "forwarded": self.forwarded_allow_ips if self.proxy_headers else None,
            "static": [{"prefix": prefix, "dir": directory} for prefix, directory in self.static],
            "tally": {"fd": self.tally[0], "slot": self.tally[1]} if self.tally else None,
            "metrics": self.metrics or "",
            "health": self.health or "",
            "ready": self.ready or "",
        }


class TrustedProxies:
    """Replaces client and scheme of a scope by what a trusted proxy has said."""

    def __init__(self, allowed):
        self.all = allowed.strip() == "*"
        self.networks = []
        self.names = set()
        for item in (part.strip() for part in allowed.split(",") if part.strip() and not self.all):
            try:
                self.networks.append(ipaddress.ip_network(item, strict=False))
            except ValueError:
                self.names.add(item)

    def trusts(self, host):
        if self.all:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host in self.names
        return any(address in network for network in self.networks)

    def __call__(self, scope):
        client = scope["client"]
        if not self.trusts(client[0] if client else ""):
            return
        forwarded = []
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                forwarded += [part.strip() for part in value.decode("latin-1").split(",")]
            elif name == b"x-forwarded-proto":
                proto = value.decode("latin-1").strip().lower()
                if proto in ("http", "https", "ws", "wss"):
                    websocket = scope["type"] == "websocket"
                    secure = proto in ("https", "wss")
                    scope["scheme"] = ("wss" if secure else "ws") if websocket else ("https" if secure else "http")
        # The last proxy appends the address that it sees. What stands before the last one
        # that is not trusted can be invented.
        for host in reversed(forwarded):
            host, port = _split(host)
            if host and (not self.trusts(host) or self.all and host == _split(forwarded[0])[0]):
                scope["client"] = (host, port)
                return
        if forwarded and (first := _split(forwarded[0]))[0]:
            scope["client"] = first


def _fits(value, kind):
    """Report whether a value has the type of an option. An int will do for a float; True and False are no numbers."""
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (list, tuple) if kind is list else kind) or isinstance(value, int) and isinstance(0.0, kind)


def _is_unicode(text):
    """Report whether a text has no bytes that the command line or the environment could not decode."""
    return not re.search("[\ud800-\udfff]", text)


def _is_port(text):
    return text.isdecimal() and len(text) <= 5


def _split(host):
    """Split an address with an optional port."""
    if host.startswith("["):
        inside, _, port = host[1:].partition("]")
        return inside, int(port[1:]) if _is_port(port[1:]) else 0
    name, colon, port = host.rpartition(":")
    if colon and ":" not in name and _is_port(port):
        return name, int(port)
    return host, 0
