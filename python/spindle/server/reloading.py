"""Watches files, for --reload."""

import os
import pathlib
import time

INCLUDED = ("*.py",)
EXCLUDED = (".*", "*.py[cod]", "*.sw?", "~*")
NOT_ENTERED = ("__pycache__", "node_modules")


class Watcher:
    """Notices changes of files.

    A file counts if its name matches a pattern of reload_includes, or *.py, and none of reload_excludes. Naming
    one of the default patterns in the other option turns it off.
    """

    def __init__(self, config):
        self.directories = list(config.reload_dirs) or [config.app_dir or "."]
        self.directories += [path for path in config.reload_includes if os.path.isdir(path)]
        self.included = _patterns(INCLUDED, config.reload_includes, config.reload_excludes)
        self.excluded = _patterns(EXCLUDED, config.reload_excludes, config.reload_includes)
        self.not_entered = {os.path.realpath(path) for path in config.reload_excludes if os.path.isdir(path)}
        self.delay = config.reload_delay
        self.seen = self._look()
        self.next = 0.0

    def _look(self):
        found = {}
        for directory in self.directories:
            for at, directories, files in os.walk(directory):
                directories[:] = [name for name in directories if self._enters(at, name)]
                for name in files:
                    path = os.path.join(at, name)
                    if self.counts(path):
                        try:
                            found[path] = os.stat(path).st_mtime_ns
                        except OSError:
                            pass
        return found

    def _enters(self, at, name):
        if name.startswith(".") or name in NOT_ENTERED:
            return False
        return not self.not_entered or os.path.realpath(os.path.join(at, name)) not in self.not_entered

    def counts(self, path):
        """Report whether a file is watched."""
        path = pathlib.PurePath(path)
        return any(map(path.match, self.included)) and not any(map(path.match, self.excluded))

    def changed(self):
        """Return a file that has changed since the last call, or None."""
        now = time.monotonic()
        if now < self.next:
            return None
        found = self._look()
        self.next = time.monotonic() + max(self.delay, 5 * (time.monotonic() - now))
        changed = {p for p in found.keys() | self.seen.keys() if found.get(p) != self.seen.get(p)}
        self.seen = found
        return min(changed) if changed else None


def _patterns(default, added, turned_off):
    return [pattern for pattern in default if pattern not in turned_off] + [
        pattern for pattern in added if pattern not in default and not os.path.isdir(pattern)]
