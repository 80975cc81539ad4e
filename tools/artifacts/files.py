"""Files that a package or an image layer holds."""

import dataclasses
import posixpath

from artifacts import ArtifactError


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file has content, a symbolic link has a target, and a directory has neither."""

    mode: int
    content: bytes = None
    target: str = None


class FileTree:
    """Entries by their path without a leading slash. Parent directories exist for each entry."""

    def __init__(self):
        self.entries = {}

    def file(self, path, content, mode=0o644):
        """Adds a file."""
        self._add(path, Entry(mode, content=content if isinstance(content, bytes) else content.encode()))

    def link(self, path, target):
        """Adds a symbolic link."""
        self._add(path, Entry(0o777, target=target))

    def directory(self, path, mode=0o755):
        """Adds a directory."""
        self._add(path, Entry(mode))

    def _add(self, path, entry):
        path = path.strip("/")
        if self.entries.get(path, entry) != entry:
            raise ArtifactError(f"two different entries for {path}; this is a defect of tools/artifacts")
        parent = posixpath.dirname(path)
        if parent and parent not in self.entries:
            self.directory(parent)
        self.entries[path] = entry

    def __iter__(self):
        return iter(sorted(self.entries.items()))
