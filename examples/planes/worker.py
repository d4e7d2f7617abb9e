"""A worker process: it counts the words of each request."""

import json
import struct
import sys


def read():
    size = sys.stdin.buffer.read(8)
    if len(size) < 8:
        sys.exit()
    all, head = struct.unpack(">II", size)
    header = json.loads(sys.stdin.buffer.read(head))
    return header, sys.stdin.buffer.read(all - 4 - head)


def write(header, body=b""):
    head = json.dumps(header).encode()
    sys.stdout.buffer.write(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
    sys.stdout.buffer.flush()


while True:
    header, body = read()
    if header["kind"] == "request":  # otherwise a cancellation of one that has been answered
        write({"kind": "reply", "id": header["id"]}, b"%d words\n" % len(body.split()))
