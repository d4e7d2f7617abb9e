"""Sockets of simulated hosts. In a world, socket.socket is this class."""

import errno
import functools
import os
import socket as real

from .current import current
from .errors import NotSimulated, users_line
from .refuse import refusal

RealSocket = real.socket

# The calls of libspindle/world.h.
(SOCKET, BIND, LISTEN, ACCEPT, CONNECT, RECV, SEND, RECVFROM, SENDTO, SHUTDOWN, LOCAL, PEER, SETOPTION, OPTION, CLOSE,
 WATCH, READY) = range(17)

_FAMILIES = {real.AF_INET: 1, real.AF_INET6: 2, real.AF_UNIX: 3}
_TYPES = {real.SOCK_STREAM: 1, real.SOCK_DGRAM: 2}
_OPTIONS = {
    (real.SOL_SOCKET, real.SO_REUSEADDR): 1,
    (real.SOL_SOCKET, real.SO_REUSEPORT): 2,
    (real.IPPROTO_TCP, real.TCP_NODELAY): 3,
    (real.SOL_SOCKET, real.SO_KEEPALIVE): 4,
    (real.SOL_SOCKET, real.SO_BROADCAST): 5,
    (real.IPPROTO_IPV6, real.IPV6_V6ONLY): 6,
    (real.SOL_SOCKET, real.SO_SNDBUF): 7,
    (real.SOL_SOCKET, real.SO_RCVBUF): 8,
    (real.SOL_SOCKET, real.SO_ERROR): 10,
}
_AGAIN = (-errno.EAGAIN, -errno.EINPROGRESS, -errno.EALREADY)


_FLAGS = real.MSG_DONTWAIT | real.MSG_NOSIGNAL  # that change nothing for a non-blocking socket


def _check(flags):
    if flags & ~_FLAGS:
        raise refusal(f"the flags {flags:#x} of a socket's call", "a world does not have them, MSG_PEEK included")


def _error(number):
    return OSError(-number, os.strerror(-number))


class Socket(RealSocket):
    """A socket of a simulated host. A call that would block raises, unless the socket is non-blocking."""

    def __new__(cls, *args, **kwargs):
        if current.is_elsewhere():
            return RealSocket(*args, **kwargs)  # of another thread than the world's
        return super().__new__(cls)

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        # The constructor of the real class, which would open a descriptor, is not called.
        world, process = current.world, current.process()
        if world is None or process < 0:
            raise NotSimulated(f"a socket of a world is made outside of its programs, at {users_line()}")
        self._io_refs, self._closed = 0, False
        self._core, self._process, self._fd, self._timeout = world._core, process, -1, real.getdefaulttimeout()
        self._family = real.AF_INET if family == -1 else real.AddressFamily(family)
        kind = real.SOCK_STREAM if type == -1 else type
        if kind & real.SOCK_NONBLOCK:
            self._timeout = 0.0
        self._kind = real.SocketKind(kind & ~(real.SOCK_NONBLOCK | real.SOCK_CLOEXEC))
        self._proto = 0 if proto == -1 else proto
        if fileno is not None:
            self._fd = fileno
        elif self._family not in _FAMILIES or self._kind not in _TYPES:
            raise refusal(f"a socket of {self._family!r} and {self._kind!r}", "a world has TCP, UDP and Unix sockets")
        else:
            self._fd = self._call(SOCKET, _FAMILIES[self._family], _TYPES[self._kind])

    def _call(self, op, a=0, b=0, address=None, data=None):
        r = self._core.call(self._process, op, self._fd, a, b, address, data)
        if r.__class__ is int and r < 0:
            if r in _AGAIN and self._timeout != 0:
                raise refusal("a blocking call of a socket", "use asyncio's functions")
            raise _error(r)
        return r

    # Addresses.

    def _address_in(self, address):
        if self._family == real.AF_UNIX:
            return 1, os.fsencode(address), 0
        host, port = address[0], address[1]
        if isinstance(host, (bytes, bytearray)):
            host = host.decode()
        if host in ("", "0.0.0.0", "<any>"):
            return (6, bytes(16), port) if self._family == real.AF_INET6 else (4, bytes(4), port)
        family, ip = resolve_one(host, self._family)
        return family, ip, port

    def _address_out(self, address):
        family, ip, port = address
        if self._family == real.AF_UNIX:
            return "" if ip in (b"", b"@") else os.fsdecode(ip)
        if family == 0:
            return None
        text = real.inet_ntop(real.AF_INET if family == 4 else real.AF_INET6, ip)
        return (text, port, 0, 0) if family == 6 else (text, port)

    def getsockname(self):
        return self._address_out(self._call(LOCAL))

    def getpeername(self):
        return self._address_out(self._call(PEER))

    # Properties.

    @property
    def family(self):
        return self._family

    @property
    def type(self):
        return self._kind

    @property
    def proto(self):
        return self._proto

    @property
    def timeout(self):
        return self._timeout

    def fileno(self):
        return self._fd

    def gettimeout(self):
        return self._timeout

    def settimeout(self, value):
        self._timeout = value

    def setblocking(self, flag):
        self._timeout = None if flag else 0.0

    def getblocking(self):
        return self._timeout != 0.0

    def get_inheritable(self):
        return False

    def set_inheritable(self, inheritable):
        pass

    def setsockopt(self, level, option, value=None, optlen=None):
        if option == real.SO_LINGER and level == real.SOL_SOCKET:
            on, seconds = int.from_bytes(value[:4], "little"), int.from_bytes(value[4:8], "little")
            self._call(SETOPTION, 9, seconds if on else -1)
        elif (level, option) in _OPTIONS and _OPTIONS[level, option] < 10:
            self._call(SETOPTION, _OPTIONS[level, option], int(value))

    def getsockopt(self, level, option, buflen=0):
        if (level, option) == (real.SOL_SOCKET, real.SO_TYPE):
            return int(self._kind)
        known = _OPTIONS.get((level, option))
        return 0 if known is None else self._call(OPTION, known)

    # Connections.

    def bind(self, address):
        self._call(BIND, 0, 0, self._address_in(address))

    def listen(self, backlog=128):
        self._call(LISTEN, backlog)

    def accept(self):
        fd, address = self._call(ACCEPT)
        accepted = Socket(self._family, self._kind, self._proto, fd)
        accepted._timeout = real.getdefaulttimeout()
        return accepted, self._address_out(address)

    def connect(self, address):
        self._call(CONNECT, 0, 0, self._address_in(address))

    def connect_ex(self, address):
        return -min(0, self._core.call(self._process, CONNECT, self._fd, 0, 0, self._address_in(address)))

    def shutdown(self, how):
        self._call(SHUTDOWN, how + 1)

    # Data.

    def recv(self, bufsize, flags=0):
        _check(flags)
        return self._call(RECV, bufsize)

    def recv_into(self, buffer, nbytes=0, flags=0):
        _check(flags)
        view = memoryview(buffer).cast("B")
        data = self._call(RECV, nbytes or len(view))
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize, flags=0):
        _check(flags)
        data, address = self._call(RECVFROM, bufsize)
        return data, self._address_out(address)

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        view = memoryview(buffer).cast("B")
        data, address = self.recvfrom(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data), address

    def send(self, data, flags=0):
        _check(flags)
        return self._call(SEND, 0, 0, None, data)

    def sendall(self, data, flags=0):
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view, flags) :]

    def sendto(self, data, *flags_and_address):
        _check(flags_and_address[0] if len(flags_and_address) > 1 else 0)
        return self._call(SENDTO, 0, 0, self._address_in(flags_and_address[-1]), data)

    def sendmsg(self, buffers, *more):
        data = b"".join(buffers)
        flags, address = (more[1] if len(more) > 1 else 0), (more[2] if len(more) > 2 else None)
        return self.send(data, flags) if address is None else self.sendto(data, flags, address)

    def recvmsg(self, bufsize, ancbufsize=0, flags=0):
        data, address = self.recvfrom(bufsize, flags)
        return data, [], 0, address

    # The end.

    def _real_close(self):
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._core.call(self._process, CLOSE, fd)

    def detach(self):
        self._closed = True
        fd, self._fd = self._fd, -1
        return fd

    def dup(self):
        raise refusal("a duplicate of a socket", "a socket of a world has one descriptor: pass the object")

    def __del__(self):
        if getattr(self, "_fd", -1) >= 0:
            self._real_close()

    def __repr__(self):
        return f"<spindle.sim socket fd={self._fd} family={self._family!r} type={self._kind!r}>"


# Names.


def _resolve(host):
    return current.world._core.lookup(current.process(), host)


def resolve_one(host, family):
    """Return the family, 4 or 6, and the bytes of the address of a name."""
    for number, ip, _ in _resolve(host):
        if number == 6 or family != real.AF_INET6:
            if number == 4 or family == real.AF_INET6:
                return number, ip
        elif number == 4:
            return 6, bytes(10) + b"\xff\xff" + ip
    raise _unknown(host)


def _unknown(host):
    names = ", ".join(host.name for host in current.world.hosts)
    return real.gaierror(real.EAI_NONAME, f"Name or service not known: {host!r} is none of the world's hosts ({names})")


_SERVICES = {"http": 80, "https": 443, "domain": 53, "ssh": 22, "smtp": 25, "redis": 6379, "postgresql": 5432}


_REAL = {name: getattr(real, name) for name in ("getaddrinfo", "gethostbyname", "getnameinfo", "gethostname", "getfqdn", "socketpair")}


def _of_the_world(function):
    """Return a function that is the real one in other threads than the world's."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return (_REAL[function.__name__] if current.is_elsewhere() else function)(*args, **kwargs)

    return call


@_of_the_world
def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    """socket.getaddrinfo of a simulated host: names are those of hosts."""
    if isinstance(host, bytes):
        host = host.decode()
    if isinstance(port, bytes):
        port = port.decode()
    if port is None or port == "":
        port = 0
    elif isinstance(port, str):
        if not port.isdigit() and port not in _SERVICES:
            raise real.gaierror(real.EAI_SERVICE, "Servname not supported for ai_socktype")
        port = _SERVICES.get(port) or int(port)
    if host is None or host == "":
        found = [(4, bytes(4) if flags & real.AI_PASSIVE else b"\x7f\0\0\1", 0)]
    elif host == "localhost" and family != real.AF_INET6:
        found = [(4, b"\x7f\0\0\1", 0)]
    else:
        found = _resolve(host)
    kinds = [(real.SOCK_STREAM, real.IPPROTO_TCP), (real.SOCK_DGRAM, real.IPPROTO_UDP)]
    answer = []
    for number, ip, _ in found:
        if family in (real.AF_INET, real.AF_INET6) and (family == real.AF_INET) != (number == 4):
            continue
        for kind, protocol in kinds:
            if type and (type & 15) != kind or proto and proto != protocol:
                continue
            text = real.inet_ntop(real.AF_INET if number == 4 else real.AF_INET6, ip)
            name = host if flags & real.AI_CANONNAME and host else ""
            if number == 4:
                answer.append((real.AF_INET, kind, protocol, name, (text, port)))
            else:
                answer.append((real.AF_INET6, kind, protocol, name, (text, port, 0, 0)))
    if not answer:
        raise _unknown(host)
    return answer


@_of_the_world
def gethostbyname(host):
    return real.inet_ntop(real.AF_INET, resolve_one(host, real.AF_INET)[1])


@_of_the_world
def getnameinfo(address, flags):
    return address[0], str(address[1])


@_of_the_world
def gethostname():
    return current.host_name()


@_of_the_world
def getfqdn(name=""):
    return name or current.host_name()


@_of_the_world
def socketpair(*args, **kwargs):
    raise refusal("socket.socketpair", "a world has none: connect to a server on the same host")


