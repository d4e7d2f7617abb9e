"""Go's log in Python's logging."""

import logging


def emit(logger, level, text):
    """Log a record. Called in the thread of a loop."""
    logging.getLogger(logger).log(level, "%s", text)
