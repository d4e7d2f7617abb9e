"""Request lines and header fields."""

from .case import request

HOST = b"Host: a\r\n"
END = HOST + b"\r\n"


def line(name, text, right, show=None, method="GET"):
    return request(f"request line: {name}", text + b"\r\n" + END, right, show, method)


def field(name, text, right, show=None):
    return request(f"field: {name}", b"GET /echo HTTP/1.1\r\n" + END[:-2] + text + b"\r\n\r\n", right, show)


def host(name, text, right, version=b"1.1"):
    return request(f"host: {name}", b"GET /echo HTTP/" + version + b"\r\n" + text + b"\r\n", right)


def names(*wanted):
    """Show some fields of a request, in the order in which the app has them."""
    return lambda found: " ".join(f"{name}={value!r}" for name, value in found["headers"] if name in wanted)


def path(found):
    return found["path"]


def both(found):
    return f"{found['path']} {found['raw_path']}"


def target(found):
    return f"{found['path']} {dict(found['headers']).get('host')}"


CASES = [
    line("a plain one", b"GET /echo HTTP/1.1", "200 /echo, keeps", path),
    line("percent-encoding", b"GET /echo/a%20b%2Fc HTTP/1.1", "200 /echo/a b/c /echo/a%20b%2Fc, keeps", both),
    line("UTF-8 in percent-encoding", b"GET /echo/%C3%A9 HTTP/1.1", "200 /echo/é, keeps", path),
    line("percent-encoding that is not UTF-8", b"GET /echo/%FF HTTP/1.1", "200 /echo/\ufffd, keeps", path),
    line("bad percent-encoding", b"GET /echo/%zz HTTP/1.1", "400, closes", path),
    line("a zero byte in percent-encoding", b"GET /echo/%00 HTTP/1.1", "200 '/echo/\\x00', keeps", lambda found: repr(found["path"])),
    line("query string", b"GET /echo?a=%20?b HTTP/1.1", "200 /echo /echo a=%20?b, keeps",
         lambda found: f"{both(found)} {found['query_string']}"),
    line("bytes beyond ASCII", b"GET /echo/\xc3\xa9 HTTP/1.1", "200 /echo/é, keeps", path),
    line("absolute form", b"GET http://b/echo HTTP/1.1", "200 /echo b, keeps", target),
    line("absolute form without a path", b"GET http://b HTTP/1.1", "200 / b, keeps", target),
    line("asterisk", b"OPTIONS * HTTP/1.1", "200 *, keeps", path),
    line("asterisk of GET", b"GET * HTTP/1.1", "400, closes", path),
    line("CONNECT", b"CONNECT b:80 HTTP/1.1", "501, closes", path),
    line("no slash at the beginning", b"GET echo HTTP/1.1", "400, closes", path),
    line("no target", b"GET HTTP/1.1", "400, closes"),
    line("fragment", b"GET /echo#part HTTP/1.1", "400, closes", path),
    line("two slashes", b"GET //echo/a HTTP/1.1", "200 //echo/a, keeps", path),
    line("dots", b"GET /echo/../x HTTP/1.1", "200 /echo/../x, keeps", path),
    line("method in lower case", b"get /echo HTTP/1.1", "200 get, keeps", lambda found: found["method"]),
    line("unknown method", b"FLY /echo HTTP/1.1", "200 FLY, keeps", lambda found: found["method"]),
    line("method that is no token", b"G@T /echo HTTP/1.1", "400, closes"),
    line("two spaces", b"GET  /echo HTTP/1.1", "400, closes"),
    line("tab", b"GET\t/echo HTTP/1.1", "400, closes"),
    line("space at the end", b"GET /echo HTTP/1.1 ", "400, closes"),
    line("space in the target", b"GET /echo /x HTTP/1.1", "400, closes"),
    line("empty line before it", b"\r\nGET /echo HTTP/1.1", "400, closes", path),
    line("HTTP/1.2", b"GET /echo HTTP/1.2", "505, closes", lambda found: found["http_version"]),
    line("HTTP/2.0", b"GET /echo HTTP/2.0", "505, closes", lambda found: found["http_version"]),
    line("HTTP/1.10", b"GET /echo HTTP/1.10", "400, closes"),
    line("version in lower case", b"GET /echo http/1.1", "400, closes"),
    line("no version", b"GET /echo", "400, closes"),
    line("zero byte", b"GET /ec\0ho HTTP/1.1", "400, closes"),
    line("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400, closes"),
    line("8,000 bytes", b"GET /echo?" + b"x" * 7970 + b" HTTP/1.1", "200, keeps"),
    line("60,000 bytes", b"GET /echo?" + b"x" * 60_000 + b" HTTP/1.1", "414, closes"),
    request("request line: bare line feeds", b"GET /echo HTTP/1.1\nHost: a\n\n", "400, closes", path),
    request("request line: HTTP/1.0", b"GET /echo HTTP/1.0\r\n\r\n", "200 1.0, closes", lambda found: found["http_version"]),

    host("missing", b"", "400, closes"),
    host("missing in HTTP/1.0", b"", "200, closes", b"1.0"),
    host("twice", b"Host: a\r\nHost: b\r\n", "400, closes"),
    host("the same twice", b"Host: a\r\nHost: a\r\n", "400, closes"),
    host("empty", b"Host:\r\n", "200, keeps"),
    host("with a space", b"Host: a b\r\n", "400, closes"),
    host("with a path", b"Host: a/b\r\n", "400, closes"),
    host("with a port", b"Host: a:80\r\n", "200, keeps"),
    host("of IPv6", b"Host: [::1]:80\r\n", "200, keeps"),

    field("names in lower case", b"X-NaMe: 1", "200 x-name='1', keeps", names("x-name")),
    field("repeated, in order", b"X-A: 1\r\nX-B: 2\r\nX-A: 3", "200 x-a='1' x-b='2' x-a='3', keeps", names("x-a", "x-b")),
    field("cookies", b"Cookie: a=1\r\nCookie: b=2", "200 cookie='a=1' cookie='b=2', keeps", names("cookie")),
    field("space around the value", b"X-A: \t 1 2 \t", "200 x-a='1 2', keeps", names("x-a")),
    field("no value", b"X-A:", "200 x-a='', keeps", names("x-a")),
    field("bytes beyond ASCII in a value", b"X-A: \xe9\xff", "200 x-a='éÿ', keeps", names("x-a")),
    field("underscore", b"X_A: 1", "200 x_a='1', keeps", names("x_a")),
    field("space before the colon", b"X-A : 1", "400, closes", names("x-a")),
    field("folded", b"X-A: 1\r\n 2", "400, closes", names("x-a")),
    field("space before the first", b"X-A: 1\r\n\tX-B: 2", "400, closes", names("x-a", "x-b")),
    field("no colon", b"nonsense", "400, closes"),
    field("no name", b": 1", "400, closes"),
    field("name that is no token", b"X(A): 1", "400, closes"),
    field("name beyond ASCII", b"X-\xe9: 1", "400, closes"),
    field("zero byte", b"X-A: a\0b", "400, closes", names("x-a")),
    field("control character", b"X-A: a\x01b", "400, closes", names("x-a")),
    field("carriage return inside", b"X-A: a\rb", "400, closes", names("x-a")),
    field("line feed alone", b"X-A: 1\nX-B: 2", "400, closes", names("x-a", "x-b")),
    field("120 of them", b"\r\n".join(b"X-%d: 1" % i for i in range(119)), "200, keeps"),
    field("1,000 of them", b"\r\n".join(b"X-%d: 1" % i for i in range(1000)), "431, closes"),
    field("a value of 16 KB", b"X-A: " + b"x" * 16_000, "200, keeps"),
    field("a value of 2 MB", b"X-A: " + b"x" * 2_000_000, "431, closes"),
    field("Upgrade that is unknown", b"Connection: upgrade, http2-settings\r\nUpgrade: h2c", "200, keeps"),
]
