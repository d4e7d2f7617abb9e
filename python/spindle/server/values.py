"""Values between Go and Python, as CBOR. See "Values" in docs/guide/python-in-go.md.

Plain values are encoded and decoded in C, and all others by the package cbor2. For plain ones both mean the same.
"""

import dataclasses
import datetime
import enum
import fractions
import ipaddress
import re
import sys
import types
import typing
from email.mime.text import MIMEText

from .._core import decode_plain, encode_plain

try:
    import cbor2
except ModuleNotFoundError:
    cbor2 = None
except ImportError as e:
    if "subinterpreter" not in str(e):
        raise
    cbor2 = None  # calls are for the main interpreter, but an app may import their names in each

MISSING = ("the package cbor2, which encodes the values of calls, is not installed for this interpreter; install it with: "
           f"{sys.executable} -m pip install cbor2")
DURATION = 0x73706E64  # the tag of a time.Duration, in nanoseconds
BLOB = 0x73706E65  # the tag of large bytes that were sent before, by their index
LARGE = 64 << 10  # bytes from which a value is not encoded, but sent as it is
NESTING = 256  # how deep lists and dicts may be nested, in both languages


class Inconvertible(TypeError):
    """A value has no counterpart in the other language. The message begins with the path of the value."""


def encode(value, path="result", part=None):
    """Return a value as CBOR. Path is what an error calls the value, or the part of it that may fail."""
    data = encode_plain(value)
    if data is not NotImplemented:
        return data
    try:
        return cbor2.dumps(value, default=_other, encoders=_ENCODERS)
    except Exception as e:
        if cbor2 is None:
            raise ModuleNotFoundError(MISSING, name="cbor2") from None
        raise Inconvertible(_locate(value if part is None else part, path, e)) from None


def decode(data, blobs=()):
    """Return the value of CBOR. Blobs are the large bytes that were sent before."""
    value = decode_plain(data)
    if value is not NotImplemented:
        return value
    if cbor2 is None:
        raise ModuleNotFoundError(MISSING, name="cbor2")
    decoders = {**_DECODERS, BLOB: lambda i, immutable: blobs[i]} if blobs else _DECODERS
    return cbor2.loads(data, semantic_decoders=decoders, max_depth=NESTING)


def _other(encoder, value):
    """Encode a value of a type that CBOR does not have."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        encoder.encode({f.name: getattr(value, f.name) for f in dataclasses.fields(kind)})
    elif hasattr(value, "model_dump"):
        encoder.encode(value.model_dump())
    elif isinstance(value, enum.Enum):
        encoder.encode(value.value)
    elif isinstance(value, datetime.time):
        encoder.encode(value.isoformat())
    elif isinstance(value, memoryview):
        encoder.encode(bytes(value))
    elif isinstance(value, typing.Mapping):
        encoder.encode(dict(value))
    else:
        _refuse(encoder, value)


def _refuse(encoder, value):
    raise TypeError(f"a {_name(type(value))} has no counterpart in Go")


def _name(kind):
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _duration(encoder, value):
    micros = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
    if not -(1 << 63) <= micros * 1000 < 1 << 63:
        raise ValueError("a datetime.timedelta of more than 292 years has no counterpart in Go")
    encoder.encode_semantic(DURATION, micros * 1000)


# What cbor2 would send by tags that Go does not know.
_ENCODERS = {kind: _refuse for kind in (
    complex, fractions.Fraction, re.Pattern, MIMEText,
    ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface,
    ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface)}
_ENCODERS[datetime.timedelta] = _duration
_DECODERS = {DURATION: lambda nanos, immutable: datetime.timedelta(microseconds=nanos // 1000)}


def _locate(value, path, error, depth=0):
    """Return the text of an error, with the path of the innermost value that cannot be encoded."""
    if depth < NESTING:
        for step, part in _parts(value):
            try:
                cbor2.dumps(part, default=_other, encoders=_ENCODERS)
            except Exception as e:
                return _locate(part, path + step, e, depth + 1)
    text = str(error)
    cause = error
    while cause.__cause__ is not None:
        cause, text = cause.__cause__, str(cause.__cause__)
    if isinstance(cause, RecursionError):
        text = f"it is nested more than {NESTING} levels deep, or contains itself"
    return f"{path}: {text}"


def _parts(value):
    if isinstance(value, typing.Mapping):
        for key, part in value.items():
            yield f"[key {key!r}]", key
            yield (f".{key}" if isinstance(key, str) else f"[{key!r}]"), part
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, part in enumerate(value):
            yield f"[{i}]", part
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for f in dataclasses.fields(value):
            yield f".{f.name}", getattr(value, f.name)


def converters(function):
    """Return what makes dataclasses of the arguments of a function, by the names of its parameters."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        return {}
    hints.pop("return", None)
    return {name: kind for name, kind in hints.items() if _has_dataclass(kind)}


def _has_dataclass(kind):
    return dataclasses.is_dataclass(kind) or any(map(_has_dataclass, typing.get_args(kind)))


def convert(value, kind, path):
    """Make dataclasses of the dicts in a value, where its type says so."""
    origin, parameters = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _build(value, kind, path)
    if origin in (typing.Union, types.UnionType):
        chosen = [p for p in parameters if _has_dataclass(p)]
        return convert(value, chosen[0], path) if len(chosen) == 1 else value
    if origin in (list, set, frozenset, tuple) and isinstance(value, list) and parameters:
        return origin(convert(v, parameters[0], f"{path}[{i}]") for i, v in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {k: convert(v, parameters[1], f"{path}.{k}") for k, v in value.items()}
    return value


def _build(value, kind, path):
    """Return a dataclass of a dict. Names of fields are compared without case and underscores, as Go's differ."""
    hints = typing.get_type_hints(kind)
    fields = {_plain(f.name): f.name for f in dataclasses.fields(kind) if f.init}
    given = {}
    for key, part in value.items():
        name = fields.get(_plain(key))
        if name is None:
            raise Inconvertible(f"{path}.{key}: {_name(kind)} has no such field")
        given[name] = convert(part, hints.get(name), f"{path}.{key}")
    try:
        return kind(**given)
    except TypeError as e:
        raise Inconvertible(f"{path}: {e}") from None


def _plain(name):
    return name.replace("_", "").lower()
