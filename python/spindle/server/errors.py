"""The error of a server that cannot start."""


class StartError(Exception):
    """The server cannot start. The message is for the user; the reason is one of a few words."""

    def __init__(self, text, reason="exited"):
        super().__init__(text)
        self.reason = reason
