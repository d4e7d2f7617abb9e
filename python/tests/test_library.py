"""libspindle.so: a panic in Go never ends the process."""

import pathlib
import re

import pytest

from conftest import python

pytestmark = pytest.mark.once

SOURCES = sorted((pathlib.Path(__file__).parent.parent / "libspindle").glob("*.go"))
EXPORTED = re.compile(r"^//export (\w+)\nfunc (\w+)\(.*\{\n((?:.*\n){0,2})", re.M)

# Arguments that make each function panic: loops that do not exist, and no place for results.
CALLS = {
    "SpindleNew": "None",
    "SpindleClose": "-1",
    "SpindleDescriptor": "99999",
    "SpindleWatch": "99999, 0, 1, None",
    "SpindlePoll": "99999, 0, None, -1",
    "SpindleCheck": "ctypes.c_void_p(1), 2, text, len(text)",
    "SpindleServe": "99999, b'{}', 2, text, len(text)",
    "SpindleFlush": "99999",
    "SpindleDrain": "99999",
    "SpindleAbort": "99999",
    "SpindleBlocked": "99999, None",
    "SpindleInspect": "ctypes.c_void_p(1), text, len(text)",
    "SpindleFailure": "ctypes.c_void_p(1), 100",
    "SpindleIgnoreSIGPIPE": "",
    "SpindleStart": "None",
    "SpindleTakeLog": "None",
    "SpindleVersion": "ctypes.c_void_p(1), 100",
    "SpindleWorldNew": "0",
    "SpindleWorldClose": "99999",
    "SpindleWorldNext": "99999, None",
    "SpindleWorldLookup": "99999, 0, None, 0, None, 0",
    "SpindleWorldCall": "99999, 0, None",
    "SpindleWorldControl": "99999, None, None",
    "SpindleWorldTrace": "99999",
    "SpindleWorldJoin": "-1, -1",
    "SpindleWorldPage": "99999, None, 0",
}
# Those that no argument makes panic, and those that have no result for it.
WITHOUT_RESULT = {"SpindleFailure", "SpindleIgnoreSIGPIPE", "SpindleVersion", "SpindleWorldJoin", "SpindleWorldNew", "SpindleWorldPage", "SpindleWorldTrace"}


def exported():
    return [match for source in SOURCES for match in EXPORTED.finditer(source.read_text())]


def test_every_exported_function_has_a_guard():
    functions = exported()
    assert len(functions) >= len(CALLS)
    for match in functions:
        assert re.search(r"defer guard(Text)?\(", match[3]), f"{match[2]} lets a panic end the process"


@pytest.mark.parametrize("function", sorted(match[1] for match in exported()))
def test_a_panic_in_an_exported_function_is_recovered(function):
    code, out, err = python(f"""
        import ctypes, os, spindle
        loop = spindle.new_event_loop()
        library = ctypes.CDLL(os.path.join(os.path.dirname(spindle.__file__), "libspindle.so"))
        text = ctypes.create_string_buffer(100000)
        result = library.{function}({CALLS[function]})
        if not text.value:
            library.SpindleFailure(text, len(text))
        print(result)
        print(text.value.decode())
        loop.close()
    """)
    assert code == 0, err
    result, text = out.split("\n", 1)
    if function not in WITHOUT_RESULT:
        assert text.startswith("spindle: panic in Go: ") and function in text
        assert int(result) < 1


def test_a_panic_in_a_callback_of_a_loop_is_recovered():
    code, out, err = python("""
        import ctypes, os, spindle
        loop = spindle.new_event_loop()
        reader, writer = os.pipe()
        os.write(writer, b"x")
        loop.add_reader(reader, print)
        library = ctypes.CDLL(os.path.join(os.path.dirname(spindle.__file__), "libspindle.so"))
        print(library.SpindlePoll(0, ctypes.c_longlong(0), ctypes.c_void_p(8), 16))  # there is no space for events at 8
        text = ctypes.create_string_buffer(100000)
        library.SpindleFailure(text, len(text))
        print(text.value.decode())
        loop.run_until_complete(loop.shutdown_asyncgens())  # it still works
        loop.close()
    """)
    assert code == 0, err
    result, text = out.split("\n", 1)
    assert int(result) == -100000 and text.startswith("spindle: panic in Go: ") and "collect" in text


def test_a_panic_in_go_is_an_exception_in_python():
    code, out, err = python("""
        import ctypes, os, spindle
        loop = spindle.new_event_loop()
        library = ctypes.CDLL(os.path.join(os.path.dirname(spindle.__file__), "libspindle.so"))
        for number in range(8):  # the loop that exists is among them
            library.SpindleClose(number)
        try:
            loop._run_once()
        except RuntimeError as exc:
            print(str(exc).splitlines()[0])
    """)
    assert code == 0, err
    assert out.startswith("spindle: panic in Go: ")
