"""Debian packages, written without dpkg-deb: an ar archive with the control files and the content, each a compressed tar archive."""

import hashlib
import lzma
import re

from artifacts import ArtifactError, archive, project
from artifacts.files import FileTree

# Library to its package, and to the prefix of symbol versions that are versions of the package.
PACKAGES = {
    "libc.so.6": ("libc6", "GLIBC_"),
    "libm.so.6": ("libc6", "GLIBC_"),
    "ld-linux-x86-64.so.2": ("libc6", "GLIBC_"),
    "ld-linux-aarch64.so.1": ("libc6", "GLIBC_"),
    "ld-linux-riscv64-lp64d.so.1": ("libc6", "GLIBC_"),
    "ld64.so.2": ("libc6", "GLIBC_"),
    "libgcc_s.so.1": ("libgcc-s1", "GCC_"),
}
# Version of glibc that marks a program with relative relocations (DT_RELR).
RELR_MARK, RELR_VERSION = "GLIBC_ABI_DT_RELR", "2.36"
DESCRIPTION = """Kubernetes Services in one binary
 Portolan is everything behind Kubernetes' "kind: Service": node proxy, cluster
 DNS, endpoint controllers, load balancer, and an API server with an agent for
 Pods on hosts without Kubernetes.
 .
 The package starts nothing. The units portolan.service (first host) and
 portolan-join.service (further hosts) read /etc/default.
"""
UNITS = "portolan.service portolan-join.service"
# Scripts of the package. Upgrades restart running units; the Pods of a unit keep running. As in other packages, a failure of systemctl
# does not stop dpkg. With DPKG_ROOT, dpkg runs the scripts outside of the root directory of the package.
SCRIPTS = {
    "postinst": f"""#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "${{DPKG_ROOT:-}}" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n "$2" ]; then
        systemctl try-restart {UNITS} || true
    fi
fi
""",
    "prerm": f"""#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "${{DPKG_ROOT:-}}" ] && command -v systemctl >/dev/null; then
    systemctl disable {UNITS} || true
    if [ -d /run/systemd/system ]; then
        systemctl stop {UNITS} || true
    fi
fi
""",
    "postrm": """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
""",
}


def numbers(version):
    """Returns a version as numbers, for comparison."""
    return tuple(int(part) for part in version.split("."))


def package_version(symbol_version):
    """Returns the version of a package that has a symbol version: GCC_4.2.0 is in version 4.2."""
    return re.sub(r"^(\d+\.\d+)\.0$", r"\1", symbol_version)


def depends(program):
    """Returns the packages that a program needs, with the oldest versions that suffice."""
    versions = program.required_versions()
    oldest = {}
    for library in program.needed():
        if library not in PACKAGES:
            raise ArtifactError(f"expected a program that needs only {', '.join(PACKAGES)}, found {library}; add its package to tools/artifacts/debian.py")
        package, prefix = PACKAGES[library]
        found = [RELR_VERSION if name == RELR_MARK else name.removeprefix(prefix) for name in versions.get(library, ())]
        found = [package_version(version) for version in found if version[0].isdigit()]
        oldest[package] = max([*found, oldest.get(package, "0")], key=numbers)
    return ", ".join(f"{package} (>= {version})" if version != "0" else package for package, version in sorted(oldest.items()))


def control(program, version, maintainer, tree):
    """Returns the control file."""
    content = sum(len(entry.content) for _, entry in tree if entry.content is not None)
    fields = {
        "Package": project.NAME,
        "Version": version,
        "Architecture": program.debian_architecture,
        "Maintainer": maintainer,
        "Installed-Size": str((content + 1023) // 1024),
        "Depends": depends(program),
        "Recommends": "ca-certificates",
        "Suggests": "iptables",
        "Section": "net",
        "Priority": "optional",
        "Description": DESCRIPTION.rstrip(),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def checksums(tree):
    """Returns the file md5sums, which `dpkg --verify` reads."""
    files = [(path, entry.content) for path, entry in tree if entry.content is not None and not path.startswith("etc/")]
    return "".join(f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {path}\n" for path, content in files)


def package(tree, program, version, maintainer):
    """Returns a package with the content of a FileTree. Files below /etc are configuration files."""
    information = FileTree()
    information.file("control", control(program, version, maintainer, tree))
    information.file("md5sums", checksums(tree))
    information.file("conffiles", "".join(f"/{path}\n" for path, entry in tree if path.startswith("etc/") and entry.content is not None))
    for name, script in SCRIPTS.items():
        information.file(name, script, 0o755)
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": lzma.compress(archive.tar(information, "./")),
        "data.tar.xz": lzma.compress(archive.tar(tree, "./")),
    }
    return ar(members)


def ar(members):
    """Returns an ar archive."""
    data = b"!<arch>\n"
    for name, content in members.items():
        header = f"{name:<16}{archive.source_date():<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        data += header.encode() + content + b"\n" * (len(content) % 2)
    return data
