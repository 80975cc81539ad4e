"""Dynamic section of ELF files, and the libraries that they need.

Only 64-bit little-endian files are read. That covers amd64, arm64, ppc64le and riscv64.
"""

import pathlib
import struct

from artifacts import ArtifactError

# e_machine to the architecture in OCI images, to the one of Debian, and to the directory of its libraries.
ARCHITECTURES = {
    62: ("amd64", "amd64", "x86_64-linux-gnu"),
    183: ("arm64", "arm64", "aarch64-linux-gnu"),
    21: ("ppc64le", "ppc64el", "powerpc64le-linux-gnu"),
    243: ("riscv64", "riscv64", "riscv64-linux-gnu"),
}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5
DT_VERDEF, DT_VERNEED = 0x6FFFFFFC, 0x6FFFFFFE


class Elf:
    """An ELF file: architecture, interpreter, needed libraries and symbol versions."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.data = self.path.read_bytes()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ArtifactError(f"expected a 64-bit little-endian ELF file, found another file: {path}")
        (self.machine,) = struct.unpack_from("<H", self.data, 18)
        if self.machine not in ARCHITECTURES:
            known = ", ".join(oci for oci, _, _ in ARCHITECTURES.values())
            raise ArtifactError(f"expected a program for {known}, found ELF machine {self.machine}: {path}")
        self.architecture, self.debian_architecture, self.multiarch = ARCHITECTURES[self.machine]
        self.segments = self._segments()
        self.dynamic = self._dynamic()

    def _segments(self):
        """Returns type, offset, address and size in the file of each segment."""
        (offset,) = struct.unpack_from("<Q", self.data, 32)
        entry_bytes, count = struct.unpack_from("<HH", self.data, 54)
        found = []
        for index in range(count):
            kind, _, start, address, _, length = struct.unpack_from("<IIQQQQ", self.data, offset + index * entry_bytes)
            found.append((kind, start, address, length))
        return found

    def _dynamic(self):
        """Returns tag and value of each entry of the dynamic section."""
        entries = []
        for kind, start, _, length in self.segments:
            if kind != PT_DYNAMIC:
                continue
            for tag, value in struct.iter_unpack("<QQ", self.data[start : start + length]):
                if tag == DT_NULL:
                    break
                entries.append((tag, value))
        return entries

    def _offset(self, tag):
        """Returns the offset in the file of the address in an entry of the dynamic section, or None."""
        address = next((value for found, value in self.dynamic if found == tag), None)
        for kind, start, first, length in self.segments:
            if address is not None and kind == PT_LOAD and first <= address < first + length:
                return start + address - first
        return None

    def _text(self, index):
        """Returns an entry of the table of dynamic strings."""
        start = self._offset(DT_STRTAB) + index
        return self.data[start : self.data.index(b"\0", start)].decode()

    def interpreter(self):
        """Returns the path of the loader, or None for a static program."""
        for kind, start, _, length in self.segments:
            if kind == PT_INTERP:
                return self.data[start : start + length].rstrip(b"\0").decode()
        return None

    def needed(self):
        """Returns the names of the libraries that the file needs itself."""
        return [self._text(value) for tag, value in self.dynamic if tag == DT_NEEDED]

    def required_versions(self):
        """Returns the symbol versions that the file requires of each library: `{"libc.so.6": {"GLIBC_2.34"}}`."""
        found = {}
        offset = self._offset(DT_VERNEED)
        while offset is not None:
            _, count, library, entry, following = struct.unpack_from("<HHIII", self.data, offset)
            versions = found.setdefault(self._text(library), set())
            entry += offset
            for _ in range(count):
                _, _, _, name, after = struct.unpack_from("<IHHII", self.data, entry)
                versions.add(self._text(name))
                entry += after
            offset = offset + following if following else None
        return found

    def defined_versions(self):
        """Returns the symbol versions that a library defines."""
        found = set()
        offset = self._offset(DT_VERDEF)
        while offset is not None:
            _, _, _, _, _, names, following = struct.unpack_from("<HHHHIII", self.data, offset)
            (name,) = struct.unpack_from("<I", self.data, offset + names)
            found.add(self._text(name))
            offset = offset + following if following else None
        return found

    def glibc_version(self):
        """Returns the version of glibc that the file requires, such as "2.34", or None."""
        names = set().union(*self.required_versions().values())
        numbers = [name.removeprefix("GLIBC_").split(".") for name in names if name.startswith("GLIBC_2")]
        newest = max((tuple(map(int, number)) for number in numbers), default=None)
        return newest and ".".join(map(str, newest))


class Libraries:
    """Directories of a root file system in which its loader finds libraries."""

    def __init__(self, sysroot):
        self.sysroot = pathlib.Path(sysroot)

    def find(self, name, needed_by):
        """Returns a library for the architecture of the file that needs it, or None."""
        multiarch = needed_by.multiarch
        standard = [f"lib/{multiarch}", f"usr/lib/{multiarch}", "lib64", "usr/lib64", "lib", "usr/lib"]
        for directory in self._configured() + standard:
            path = self.sysroot / directory / name
            try:
                library = Elf(path)
            except (OSError, ArtifactError):
                continue
            if library.machine == needed_by.machine:
                return library
        return None

    def _configured(self):
        """Returns the directories that /etc/ld.so.conf and the files that it includes list."""
        found, files = [], [self.sysroot / "etc/ld.so.conf"]
        while files:
            file = files.pop(0)
            for line in file.read_text().splitlines() if file.is_file() else []:
                if line.startswith("include "):
                    pattern = line.split(maxsplit=1)[1].lstrip("/")
                    base = self.sysroot if line.split()[1].startswith("/") else self.sysroot / "etc"
                    files += sorted(base.glob(pattern))
                elif line.startswith("/"):
                    found.append(line.strip().lstrip("/"))
        return found

    def closure(self, programs):
        """Returns the libraries that programs need, directly and indirectly, by name.

        Raises ArtifactError if a library is missing, or lacks a symbol version that is required of it.
        """
        found, queue = {}, list(programs)
        while queue:
            file = queue.pop(0)
            for name in file.needed():
                if name not in found:
                    library = self.find(name, file)
                    if library is None:
                        raise ArtifactError(f"{file.path} needs {name}, which is not below {self.sysroot}; install it there")
                    found[name] = library
                    queue.append(library)
            check_versions(file, found)
        return found


def check_versions(file, libraries):
    """Raises ArtifactError if a library lacks a symbol version that a file requires of it."""
    for name, versions in file.required_versions().items():
        missing = versions - libraries[name].defined_versions() if name in libraries else set()
        if missing:
            raise ArtifactError(
                f"{file.path} requires {', '.join(sorted(missing))}, which {libraries[name].path} lacks; "
                "name a root file system with a newer library by --sysroot, or build on an older distribution"
            )
