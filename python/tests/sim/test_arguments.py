"""Wrong arguments are errors that name the function, the argument and the remedy."""

import asyncio

import pytest

import spindle.sim
from spindle.sim import Faults


@pytest.fixture
def world():
    world = spindle.sim.World(1)
    world.host("a"), world.host("b")
    yield world
    world.close()


@pytest.mark.parametrize("name, error, words", [
    ("a", ValueError, "there is a host 'a' already"),
    ("localhost", ValueError, "'localhost' cannot be the name of a host"),
    ("", ValueError, "'' cannot be the name of a host"),
    ("10.0.0.1", ValueError, "'10.0.0.1' cannot be the name of a host"),
    (7, TypeError, "the name of a host is a string, not 7"),
])
def test_names_of_hosts(world, name, error, words):
    with pytest.raises(error, match=f"world.host: .*{words}"):
        world.host(name)


@pytest.mark.parametrize("call, error, words", [
    (lambda w, a, b: w.partition("a"), TypeError, "partition takes hosts that world.host has returned, not 'a'"),
    (lambda w, a, b: w.partition(a, "b"), TypeError, "partition takes hosts .* not 'b'"),
    (lambda w, a, b: w.link(a, None), TypeError, "link takes hosts"),
    (lambda w, a, b: w.one_way("a", b), TypeError, "one_way takes hosts"),
    (lambda w, a, b: w.delay(5, 1), ValueError, "delay: the least duration, 5, is longer than the most, 1"),
    (lambda w, a, b: w.link(a, b).delay(5, 1), ValueError, "delay: the least duration, 5, is longer than the most, 1"),
    (lambda w, a, b: w.link(a, b).delay(-1), ValueError, "delay: least is a number of seconds from 0 on"),
    (lambda w, a, b: w.link(a, b).delay("1"), TypeError, "delay: least is a number of seconds, not '1'"),
    (lambda w, a, b: w.link(a, b).loss(2), ValueError, "loss: a share is from 0 to 1"),
    (lambda w, a, b: w.link(a, b).loss("2"), TypeError, "loss: a share is a number from 0 to 1"),
    (lambda w, a, b: w.link(a, b).bandwidth(-1), ValueError, "bandwidth: bytes_per_second is a whole number from 0 on"),
    (lambda w, a, b: w.after(1, None), TypeError, "after takes a function and its arguments, not None"),
    (lambda w, a, b: w.after("1", print), TypeError, "after: seconds is a number of seconds"),
    (lambda w, a, b: w.until(True, within=1), TypeError, "until takes a function"),
    (lambda w, a, b: w.until(lambda: True, within="1"), TypeError, "until: within is a number"),
    (lambda w, a, b: w.always(None), TypeError, "always takes a function"),
    (lambda w, a, b: w.run_for(-1), ValueError, "run_for: seconds"),
    (lambda w, a, b: w.amount("n", 0), ValueError, "amount: most is a whole number from 1 on"),
    (lambda w, a, b: w.amount(1, 2), TypeError, "the name of an amount is a string"),
    (lambda w, a, b: a.fail_call("open", 5), ValueError, "fail_call: call is one of socket, "),
    (lambda w, a, b: a.fail_call("send", 5, nth=0), ValueError, "fail_call: nth is a whole number from 1 on"),
    (lambda w, a, b: a.start(None), TypeError, "a coroutine function and its arguments"),
    (lambda w, a, b: Faults(crash_every=-1), ValueError, "Faults: crash_every"),
    (lambda w, a, b: Faults(loss=2), ValueError, "Faults: loss: a share is from 0 to 1"),
    (lambda w, a, b: spindle.sim.World(-1), ValueError, "a seed is a whole number"),
    (lambda w, a, b: spindle.sim.test(lambda: None), TypeError, "needs an argument named world"),
    (lambda w, a, b: spindle.sim.test(200), TypeError, "seeds is a keyword argument"),
    (lambda w, a, b: spindle.sim.test(seeds=0), ValueError, "test: seeds is a whole number from 1 on"),
])
def test_values(world, call, error, words):
    with pytest.raises(error, match=words):
        call(world, *world.hosts)


def test_a_host_of_another_world(world):
    other = spindle.sim.World(2)
    with pytest.raises(TypeError, match="a host of another world"):
        world.partition(other.host("c"))
    other.close()


async def _generates():
    yield


@pytest.mark.parametrize("function", [lambda: 1, print, _generates], ids=["lambda", "print", "generator"])
def test_a_function_that_is_none_of_coroutines(world, function):
    world.hosts[0].start(function)
    with pytest.raises(TypeError, match=r"takes? a coroutine function \(async def\).* passed at .*test_arguments.py:\d+"):
        world.run()


def test_a_function_that_returns_a_coroutine(world):
    world.hosts[0].start(lambda: asyncio.sleep(1))
    world.run()
    assert world.now == 1


def test_wrong_arguments_of_a_program(world):
    world.hosts[0].start(_program, 1, 2)
    with pytest.raises(TypeError, match="positional argument"):
        world.run()


async def _program(one):
    await asyncio.sleep(one)


def test_a_world_that_is_closed(world):
    world.close()
    with pytest.raises(spindle.sim.SimError, match="the world is closed"):
        world.run()
