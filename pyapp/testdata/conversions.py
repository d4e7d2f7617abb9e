"""Shows and makes values."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import uuid


@dataclasses.dataclass
class Item:
    name: str
    unit_price: float = 0.0


@dataclasses.dataclass
class Order:
    number: int
    items: list[Item]
    note: Item | None = None


class Colour(enum.Enum):
    RED = "red"


Pair = collections.namedtuple("Pair", "a b")


def show(value):
    return repr(value)


def echo(value):
    return value


def make(expression):
    return eval(expression)


def order(order: Order):
    assert type(order) is Order
    return f"{order!r}"


def orders(all: list[Order], by: dict[str, Item] = {}):
    return f"{all!r} {by!r}"


def cycle():
    loop = []
    loop.append(loop)
    return {"a": loop}
