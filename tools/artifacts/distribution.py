"""Packages of the distribution that files of an image come from.

Debian's database names them. An image without dpkg has its records below /var/lib/dpkg/status.d, where scanners for vulnerabilities read them,
and the licenses below /usr/share/doc.
"""

import re

RELEASE_FILES = ("etc/os-release", "usr/lib/os-release")
# The bundle of certificates is generated when the package is installed, so no list of files names it.
GENERATED = {"etc/ssl/certs/ca-certificates.crt": "ca-certificates"}


class Database:
    """Database of dpkg in a root file system. It is empty on other distributions."""

    def __init__(self, sysroot):
        self.sysroot = sysroot
        self.owners, self.records = {}, {}
        for file in sorted((sysroot / "var/lib/dpkg/info").glob("*.list")):
            for line in file.read_text(errors="replace").splitlines():
                self.owners.setdefault(merged(line), file.name.removesuffix(".list").partition(":")[0])
        status = sysroot / "var/lib/dpkg/status"
        for record in status.read_text(errors="replace").split("\n\n") if status.is_file() else []:
            if name := re.match(r"Package: (\S+)$", record, re.MULTILINE):
                self.records[name[1]] = record.strip("\n") + "\n"

    def packages(self, tree):
        """Returns the packages of the files of a tree, sorted."""
        found = {self._owner(path, entry.content) for path, entry in tree if entry.content is not None}
        return sorted(found & self.records.keys())

    def _owner(self, path, content):
        """Returns the package of a file, or None."""
        if path in GENERATED:
            file = self.sysroot / path
            return GENERATED[path] if file.is_file() and file.read_bytes() == content else None
        return self.owners.get(merged("/" + path))

    def add_records(self, tree):
        """Adds the records and licenses of the packages of a tree, and the name of the distribution."""
        for name in self.packages(tree):
            tree.file(f"var/lib/dpkg/status.d/{name}", self.records[name])
            license_file = self.sysroot / f"usr/share/doc/{name}/copyright"
            if license_file.is_file():
                tree.file(f"usr/share/doc/{name}/copyright", license_file.read_bytes())


def add_release(tree, sysroot):
    """Adds the name and the version of the distribution."""
    for path in RELEASE_FILES:
        if (sysroot / path).is_file():
            tree.file(RELEASE_FILES[0], (sysroot / path).read_bytes())
            return


def merged(path):
    """Returns a path without a leading /usr: /lib and /usr/lib are one directory in most distributions."""
    return path.removeprefix("/usr")
