import asyncio

class Loop(asyncio.SelectorEventLoop):
    block_report_after: float
    def __init__(self) -> None: ...
