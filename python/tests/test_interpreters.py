"""Interpreters that can have no loop: the package can be imported there, and only making a loop fails."""

import subprocess
import sys
import textwrap

import pytest

IN_A_SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreter = interpreters.create()
failed = interpreters.run_string(interpreter, sys.argv[1])
assert not failed, failed
interpreters.destroy(interpreter)
"""


def test_in_a_subinterpreter_only_the_loop_is_refused():
    code = textwrap.dedent("""
        import sys, spindle
        assert spindle.detect_mode() is spindle.ExecutionMode.SUBINTERP
        assert "asyncio" not in sys.modules  # in 3.12, the end of the interpreter would end the process
        for make in (spindle.new_event_loop, spindle.Loop, lambda: spindle.run(None), spindle.install, lambda: spindle.CancelScope):
            try:
                make()
            except RuntimeError as error:
                assert "subinterpreters are not supported yet" in str(error) and "--workers" in str(error), error
            else:
                raise AssertionError(make)
        print("refused")
        """)
    done = subprocess.run([sys.executable, "-c", IN_A_SUBINTERPRETER, code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_free_threaded_builds_have_no_loops(monkeypatch):
    from spindle import mode, refused

    monkeypatch.setattr(sys, "abiflags", "t")
    assert "free-threaded" in mode.why_no_loops()
    with pytest.raises(RuntimeError, match="never tested"):
        refused.Loop()
