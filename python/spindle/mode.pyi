import enum

class ExecutionMode(enum.Enum):
    FREE_THREADED = "free_threaded"
    SUBINTERP = "subinterp"
    SHARED_GIL = "shared_gil"

def detect_mode() -> ExecutionMode: ...
def why_no_loops() -> str | None: ...
def in_main_interpreter() -> bool: ...
