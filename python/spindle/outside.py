"""Finds descriptors that another process may make ready."""

import fcntl
import os
import socket
import stat
import struct


def reached_from_outside(fds):
    """Report whether another process, or the kernel by itself, may make one of the descriptors ready."""
    ends = None
    for fd in fds:
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISSOCK(mode):
                with socket.socket(fileno=os.dup(fd)) as sock:
                    connection = _connection(sock)
                if isinstance(connection, bool):
                    outside = connection
                else:
                    ends = _connections() if ends is None else ends
                    outside = connection[::-1] not in ends
            elif stat.S_ISFIFO(mode):
                outside = not _has_other_end(fd)
            else:
                outside = os.readlink(f"/proc/self/fd/{fd}") != "anon_inode:[eventfd]"
        except OSError:
            continue  # it was closed
        if outside:
            return True
    return False


def _connection(sock):
    """Return both addresses of a connection, or whether another process is at the other end."""
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    if sock.family == socket.AF_UNIX:
        peer, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return peer not in (0, os.getpid())
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    try:
        return sock.getsockname()[:2], sock.getpeername()[:2]
    except OSError:
        return sock.type == socket.SOCK_STREAM  # it is being connected


def _connections():
    """Return both addresses of every internet connection of the process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    found.add((sock.getsockname()[:2], sock.getpeername()[:2]))
        except OSError:
            pass  # closed since, or not connected
    return found


def _has_other_end(fd):
    """Report whether the process has the other end of a pipe."""
    this, writes = os.fstat(fd), _writes(fd)
    for name in os.listdir("/proc/self/fd"):
        try:
            other = os.fstat(int(name))
            if (other.st_dev, other.st_ino) == (this.st_dev, this.st_ino) and _writes(int(name)) != writes:
                return True
        except OSError:
            pass  # closed since
    return False


def _writes(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
