"""Values of calls between Go and Python: what is encoded in C means the same as what cbor2 encodes."""

import collections
import math
import random
import tracemalloc

import cbor2
import pytest

from spindle._core import decode_plain, encode_plain
from spindle.server import frames, values

EDGES = [
    None, False, True, 0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
    -1, -24, -25, -256, -257, -(2**32), -(2**32) - 1, -(2**63), 0.0, -0.0, 1.5, 1e300, 5e-324, math.inf, -math.inf,
    "", "a", "ü" * 23, "𝄞" * 300, "\x00", b"", b"\x00" * 23, b"\xff" * 24, b"x" * 70000,
    [], (), {}, [[]], {"a": [1, {"b": None}]}, {1: "a", b"k": 2, None: 3, 1.5: 4, True: 5}, list(range(300)), dict.fromkeys(range(70000)),
]

NOT_PLAIN = [
    2**64, -(2**63) - 1, {1, 2}, collections.OrderedDict(a=1), 1j, "\ud800", bytearray(b"x"), [1, {2}], {"a": {1}}, {(1, 2): 3}.keys(),
]


def nested(n):
    value = 1
    for _ in range(n):
        value = [value]
    return value


@pytest.mark.parametrize("value", EDGES, ids=lambda v: repr(v)[:30])
def test_plain_values_are_those_of_cbor2(value):
    data = encode_plain(value)
    assert repr(cbor2.loads(data)) == repr(decode_plain(data)) == repr(list(value) if type(value) is tuple else value)
    assert repr(decode_plain(cbor2.dumps(value))) == repr(decode_plain(data))


def test_nan():
    assert math.isnan(cbor2.loads(encode_plain(math.nan)))
    assert math.isnan(decode_plain(cbor2.dumps(math.nan)))


@pytest.mark.parametrize("text,value", [("f93e00", 1.5), ("fa3fc00000", 1.5), ("1800", 0), ("1b0000000000000001", 1), ("7800", "")])
def test_longer_forms_are_decoded(text, value):
    assert decode_plain(bytes.fromhex(text)) == value


@pytest.mark.parametrize("value", NOT_PLAIN, ids=lambda v: repr(v)[:30])
def test_other_values_are_left_to_cbor2(value):
    assert encode_plain(value) is NotImplemented


def test_deep_values_are_left_to_cbor2():
    assert encode_plain(nested(64)) == cbor2.dumps(nested(64))
    assert decode_plain(encode_plain(nested(64))) == nested(64)
    assert encode_plain(nested(65)) is NotImplemented
    assert decode_plain(cbor2.dumps(nested(65))) is NotImplemented
    assert values.decode(values.encode(nested(200))) == nested(200)
    circle = []
    circle.append(circle)
    assert encode_plain(circle) is NotImplemented


@pytest.mark.parametrize("text", [
    "", "18", "19ff", "1bffffffffffffff", "1c", "1f", "3bffffffffffffffff", "42ff", "5bffffffffffffffff", "5f41ff", "61", "61ff", "62c328",
    "81", "9bffffffffffffffff", "9f01ff", "a1", "a101", "a18001", "a1a001", "bbffffffffffffffff", "c001", "d9010281", "e0", "f7", "f818", "f9", "fb00", "ff", "0000",
])
def test_what_is_not_plain_is_left_to_cbor2(text):
    assert decode_plain(bytes.fromhex(text)) is NotImplemented


def test_lists_that_are_cut_take_little_memory():
    data = b"\x9a\x00\x0f\xff\x00" * 60 + bytes(1 << 20)
    tracemalloc.start()
    try:
        assert decode_plain(data) is NotImplemented
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [[[1, 2], {"a": [3], "b": {}}, []], {"a": {"b": [0, {1: 2}]}, "c": [[[]]]}], ids=repr)
def test_lengths_up_to_the_last_byte(value):
    data = encode_plain(value)
    assert decode_plain(data) == value
    assert all(decode_plain(data[:n]) is NotImplemented for n in range(len(data)))


def test_random_bytes_mean_what_cbor2_says():
    r = random.Random(1)
    plain = 0
    for _ in range(40000):
        data = bytes(r.choice((0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xF4, 0xF8)) + r.randrange(8) if r.random() < 0.7 else r.randrange(256)
                     for _ in range(r.randrange(1, 12)))
        value = decode_plain(data)
        if value is NotImplemented:
            continue
        plain += 1
        assert repr(value) == repr(cbor2.loads(data)), data.hex()
        again = encode_plain(value)
        assert repr(decode_plain(again)) == repr(value) == repr(cbor2.loads(again)), data.hex()
    assert plain > 1000


def test_plain_values_do_without_cbor2(monkeypatch):
    monkeypatch.setattr(values, "cbor2", None)
    assert values.decode(values.encode({"a": [1, b"x"]})) == {"a": [1, b"x"]}
    with pytest.raises(ModuleNotFoundError, match="pip install cbor2"):
        values.encode({1})
    with pytest.raises(ModuleNotFoundError, match="pip install cbor2"):
        values.decode(b"\xc1\x00")


@pytest.mark.parametrize("header", [
    {"kind": "request", "id": 0},
    {"kind": "credit", "id": 2**64 - 1, "seq": 2**32 - 1},
    {"kind": "request", "id": 7, "seq": 1, "deadline_us": 5, "traceparent": "00-1-2-03", "headers": {"depth": "1", "": "ü" * 127}},
])
def test_short_headers(header):
    texts = frames.texts(*(text for pair in header.get("headers", {}).items() for text in pair))
    short = frames.short(header["kind"], header["id"], header.get("seq", 0), header.get("deadline_us", 0), header.get("traceparent", ""), texts)
    assert frames._read_head(b"xx" + short + b"body", 2, 2 + len(short)) == header
