"""python -m spindle APP serves an app."""

import sys

from .server.cli import main

if __name__ == "__main__":
    sys.exit(main())
