"""Reproducible archives: entries sorted by path, one modification time, owner 0:0 without names, no time in gzip headers."""

import io
import os
import tarfile
import zlib

from artifacts import ArtifactError

# Added to the window bits of zlib, selects the gzip format.
GZIP_FORMAT = 16


def source_date():
    """Returns the modification time of all entries, in seconds since 1970: SOURCE_DATE_EPOCH, or 0."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    if not text.isascii() or not text.isdigit():
        raise ArtifactError(f"expected seconds since 1970 in SOURCE_DATE_EPOCH, found {text!r}")
    return int(text)


def tar(tree, prefix=""):
    """Returns the entries of a FileTree as a tar archive. Each path begins with the prefix."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in tree:
            info = tarfile.TarInfo(prefix + path)
            info.mode, info.mtime = entry.mode, source_date()
            if entry.target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            archive.addfile(info, io.BytesIO(entry.content or b""))
    return buffer.getvalue()


def compress(data):
    """Returns data as a gzip stream without name and time."""
    stream = zlib.compressobj(level=9, wbits=zlib.MAX_WBITS | GZIP_FORMAT)
    return stream.compress(data) + stream.flush()
