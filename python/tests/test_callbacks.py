"""Callbacks, timers, contexts and errors."""

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import logging
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest

import spindle
import spindle.testing


def run_briefly(loop):
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_callbacks_run_in_order(loop):
    seen = []
    for i in range(1000):
        loop.call_soon(seen.append, i)
    run_briefly(loop)
    assert seen == list(range(1000))


def test_cancelled_handle_says_so(loop):
    for debug in (False, True):
        loop.set_debug(debug)
        for handle in (loop.call_soon(print), loop.call_later(10, print)):
            handle.cancel()
            assert repr(handle).startswith(f"<{type(handle).__name__} cancelled")


def test_callback_queued_by_a_callback_runs_in_the_next_tick(loop):
    seen = []
    loop.call_soon(lambda: (seen.append("first"), loop.call_soon(seen.append, "third")))
    loop.call_soon(seen.append, "second")
    run_briefly(loop)
    assert seen == ["first", "second"]
    run_briefly(loop)
    assert seen == ["first", "second", "third"]


def test_timers_fire_in_order_of_time_then_of_call(loop):
    seen = []
    now = loop.time()
    for name, when in [("c", 0.02), ("a", 0.01), ("d", 0.02), ("b", 0.01)]:
        loop.call_at(now + when, seen.append, name)
    loop.call_at(now + 0.03, loop.stop)
    loop.run_forever()
    assert seen == ["a", "b", "c", "d"]


def test_many_cancelled_timers_leave_nothing(loop):
    timers = [loop.call_later(3600 + i % 7, print) for i in range(10000)]
    kept = loop.call_later(3600, print)
    for timer in timers:
        timer.cancel()
    assert kept._scheduled and not any(timer._scheduled for timer in timers)
    kept.cancel()


def test_sleep_is_precise(loop):
    async def main():
        spent = []
        for _ in range(20):
            begin = time.perf_counter()
            await asyncio.sleep(0.001)
            spent.append(time.perf_counter() - begin)
        return sorted(spent)

    spent = loop.run_until_complete(main())
    assert spent[0] >= 0.001


def test_cancelled_callback_does_not_run(loop):
    handle = loop.call_soon(pytest.fail)
    handle.cancel()
    assert handle.cancelled()
    run_briefly(loop)


def test_callback_may_cancel_its_own_handle(loop):
    seen = []

    def callback(text):
        handle.cancel()
        seen.append(text)

    handle = loop.call_soon(callback, "argument " * 3)
    run_briefly(loop)
    assert seen == ["argument " * 3]


def test_each_callback_has_a_copy_of_the_context(loop):
    var = contextvars.ContextVar("var", default=0)
    seen = []

    def callback(n):
        seen.append((n, var.get()))
        var.set(n)

    var.set(7)
    loop.call_soon(callback, 1)
    loop.call_soon(callback, 2)
    own = contextvars.copy_context()
    loop.call_soon(callback, 3, context=own)
    run_briefly(loop)
    assert seen == [(1, 7), (2, 7), (3, 7)]
    assert own[var] == 3 and var.get() == 7


@pytest.mark.parametrize("context", [5, "text", {}, object()])
def test_context_of_another_type_is_refused(loop, context):
    for call in (loop.call_soon, loop.call_soon_threadsafe):
        with pytest.raises(TypeError, match="^context must be a contextvars.Context or None, not "):
            call(print, context=context)
    for call in (loop.call_later, loop.call_at):
        with pytest.raises(TypeError, match="^context must be a contextvars.Context or None, not "):
            call(0, print, context=context)
    gc.collect()
    run_briefly(loop)


def test_exception_goes_to_the_exception_handler(loop):
    contexts = []
    loop.set_exception_handler(lambda loop, context: contexts.append(context))

    def fails():
        raise ValueError("no")

    loop.call_soon(fails)
    run_briefly(loop)
    assert isinstance(contexts[0]["exception"], ValueError)
    assert "fails" in contexts[0]["message"]


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
def test_exit_leaves_the_loop(loop, exception):
    def exits():
        raise exception

    loop.call_soon(exits)
    with pytest.raises(exception):
        loop.run_forever()
    run_briefly(loop)  # it can go on


def test_threadsafe_call_wakes_a_waiting_loop(loop):
    async def main():
        arrived = loop.create_future()
        threading.Timer(0.02, lambda: loop.call_soon_threadsafe(arrived.set_result, "here")).start()
        return await asyncio.wait_for(arrived, 10)

    assert loop.run_until_complete(main()) == "here"


def test_threadsafe_calls_from_many_threads_all_arrive(loop):
    async def main():
        count, done = 0, loop.create_future()

        def called():
            nonlocal count
            count += 1
            if count == 8 * 2000:
                done.set_result(None)

        def caller():
            for _ in range(2000):
                loop.call_soon_threadsafe(called)

        threads = [threading.Thread(target=caller) for _ in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(done, 60)
        for thread in threads:
            thread.join()

    loop.run_until_complete(main())


def test_call_from_another_thread_is_named_in_debug_mode(loop):
    loop.set_debug(True)
    errors = []

    def call():
        try:
            loop.call_soon(print)
        except RuntimeError as error:
            errors.append(error)

    async def main():
        await asyncio.to_thread(call)

    loop.run_until_complete(main())
    assert "Non-thread-safe operation" in str(errors[0])


def test_slow_callback_is_logged_in_debug_mode(loop, caplog):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01
    with caplog.at_level(logging.WARNING, "asyncio"):
        loop.call_soon(time.sleep, 0.02)
        run_briefly(loop)
    assert re.search(r"Executing .*test_callbacks.py.* took \d+\.\d{3} seconds", caplog.text)


@pytest.mark.parametrize("debug", [False, True])
def test_origin_of_a_coroutine_is_reported_in_debug_mode(debug):
    async def forgotten():
        pass

    async def main():
        with pytest.warns(RuntimeWarning, match="never awaited") as caught:
            forgotten()
        return str(caught[0].message)

    assert ("Coroutine created at" in spindle.run(main(), debug=debug)) is debug
    assert sys.get_coroutine_origin_tracking_depth() == 0


def test_asynchronous_generators_are_closed_with_the_run():
    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0.001)
            closed.append(asyncio.get_running_loop())

    async def main():
        kept.append(numbers())
        assert await anext(kept[0]) == 1
        async for number in numbers():
            break
        while not closed:  # nothing refers to that one
            await asyncio.sleep(0)
        return asyncio.get_running_loop()

    kept, closed = [], []
    assert [spindle.run(main())] * 2 == closed


def test_wrong_arguments_are_refused(loop):
    for call in [
        lambda: loop.call_soon(),
        lambda: loop.call_later(1),
        lambda: loop.call_later(None, print),
        lambda: loop.call_at(None, print),
        lambda: loop.call_soon(print, unknown=1),
        lambda: loop.call_later(callback=print),
    ]:
        with pytest.raises(TypeError):
            call()


def test_arguments_may_be_named(loop):
    seen = []
    loop.call_soon(callback=lambda: seen.append("soon"))
    loop.call_later(delay=0, callback=lambda: seen.append("later"))
    loop.call_at(when=0, callback=lambda: seen.append("at"))
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert sorted(seen) == ["at", "later", "soon"]


def test_debug_mode_takes_any_truth_value(loop):
    loop.set_debug(1)
    assert loop.get_debug() is True
    loop.set_debug(None)
    assert loop.get_debug() is False


def test_reader_of_a_closed_socket_can_be_removed(loop):
    first, peer = socket.socketpair()
    loop.add_reader(first, print)
    first.close()
    assert loop.remove_reader(first)
    second, other = socket.socketpair()
    arrived = []
    loop.add_reader(second, lambda: (arrived.append(second.recv(10)), loop.stop()))
    other.send(b"x")
    loop.run_forever()
    assert arrived == [b"x"]
    loop.remove_reader(second)
    for sock in (peer, second, other):
        sock.close()


def test_number_of_a_closed_descriptor_can_be_watched_again(loop):
    first, peer = socket.socketpair()
    number = first.fileno()
    loop.add_reader(number, print)
    first.close()
    second, other = socket.socketpair()
    arrived = []
    assert second.fileno() == number
    loop.add_writer(number, print)
    loop.remove_writer(number)
    loop.add_reader(number, lambda: (arrived.append(second.recv(10)), loop.stop()))
    other.send(b"x")
    loop.run_forever()
    assert arrived == [b"x"]
    loop.remove_reader(number)
    for sock in (peer, second, other):
        sock.close()


def test_wrong_descriptor_is_refused(loop):
    with pytest.raises(OSError):
        loop.add_reader(10**8, print)


def test_closed_loop_refuses_callbacks(loop):
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


def test_held_handle_is_collected_with_its_cycle(loop):
    class Owner:
        def start(self):
            self.handle = loop.call_soon(self.run)
            self.timer = loop.call_later(3600, self.run)

        def run(self):
            pass

    owner = Owner()
    owner.start()
    run_briefly(loop)
    owner.timer.cancel()
    ref = weakref.ref(owner)
    del owner
    gc.collect()
    assert ref() is None


def test_loop_that_is_dropped_is_collected(loop):
    def drop():
        other = spindle.new_event_loop()
        other.call_soon(other.stop)
        other.call_later(3600, other.stop)
        return weakref.ref(other)

    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        ref = drop()
        gc.collect()
    assert ref() is None


def test_loops_in_several_threads(loop):
    results = []

    async def main():
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop()

    threads = [threading.Thread(target=lambda: results.append(spindle.run(main()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, results))) == 4


@pytest.mark.parametrize("run", ["spindle.run", "spindle.testing.run"])
def test_misuse_of_run_is_explained(run):
    function = {"spindle.run": spindle.run, "spindle.testing.run": spindle.testing.run}[run]

    async def main():
        coroutine = main()
        with contextlib.closing(coroutine), pytest.raises(RuntimeError, match=f"^{run} cannot be called from a running"):
            function(coroutine)
        return 1

    coroutine = main()
    assert function(coroutine) == 1
    with pytest.raises(RuntimeError, match="already awaited"):
        function(coroutine)
    with pytest.raises(ValueError, match=rf"^{run} was given the function main; call it: {run}\(main\(\)\)$"):
        function(main)
    with pytest.raises(ValueError, match=rf"^{run} was given the function functools.partial"):
        function(functools.partial(main))
    with pytest.raises((TypeError, ValueError), match="coroutine"):
        function(None)


def test_mode(monkeypatch):
    assert spindle.detect_mode() is spindle.ExecutionMode.SHARED_GIL
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert spindle.detect_mode() is spindle.ExecutionMode.FREE_THREADED


def test_install():
    """The policy makes our loops. Its deprecation is reported by a call and not by the import."""
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent("""
    import asyncio, sys, spindle, warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spindle.install()
    assert len(caught) == (sys.version_info >= (3, 12)), caught
    async def main():
        return type(asyncio.get_running_loop())
    assert asyncio.run(main()) is spindle.Loop
    loop = asyncio.new_event_loop()
    assert type(loop) is spindle.Loop
    loop.close()
    """)], check=True, timeout=600)


def test_timer_slack_of_the_thread_is_small_only_while_the_loop_runs(loop):
    def slack():
        return ctypes.CDLL(None).prctl(30, 0, 0, 0, 0)  # PR_GET_TIMERSLACK

    async def main():
        return slack()

    before = slack()
    assert loop.run_until_complete(main()) <= 5000
    assert slack() == before


@pytest.mark.parametrize("method", ["call_later", "call_at"])
def test_a_time_that_is_no_number_is_refused(loop, method):
    fired = []
    with pytest.raises(ValueError, match="nan"):
        getattr(loop, method)(float("nan"), fired.append, "never")
    loop.call_later(0.001, fired.append, "later")
    loop.call_later(0.002, loop.stop)
    loop.run_forever()
    assert fired == ["later"]


def test_a_clock_that_the_program_sets_moves_the_timers(loop):
    fired, real = [], loop.time()
    loop.call_later(3600, fired.append, "an hour")
    loop.time = lambda: real + 7200
    loop.call_later(3600, fired.append, "three hours")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert fired == ["an hour"]
    del loop.time
    assert loop.time() - real < 3600


def test_a_clock_of_a_subclass_moves_the_timers():
    class Late(spindle.loop.Loop):
        late = 0

        def time(self):
            return super().time() + self.late

    loop, fired = Late(), []
    loop.call_later(3600, fired.append, "an hour")
    loop.late = 3600
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert fired == ["an hour"]


def test_a_clock_that_fails_ends_the_run(loop):
    loop.call_later(3600, print)
    loop.time = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        loop.call_later(1, print)
    with pytest.raises(ZeroDivisionError):
        loop.run_forever()
    del loop.time
