"""Whole numbers on a command line."""

import argparse


def from_on(least, most=None):
    """Return a type for argparse: whole numbers from least on, up to most."""

    def number(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least or most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is not from {least} " + ("on" if most is None else f"to {most}"))
        return value

    return number
