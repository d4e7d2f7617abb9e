"""Functions that the Go program calls."""

from collections import Counter


def count_words(text):
    return Counter(text.split())
