"""The error of a server that cannot start."""


class StartError(Exception):
    """The server cannot start. The message is for the user."""
