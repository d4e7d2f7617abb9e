import enum

class ExecutionMode(enum.Enum):
    FREE_THREADED = "free_threaded"
    SUBINTERP = "subinterp"
    SHARED_GIL = "shared_gil"

def detect_mode() -> ExecutionMode: ...
