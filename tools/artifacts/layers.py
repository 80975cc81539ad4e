"""Content of the layers of Portolan's images.

    base      loader and libraries of the program, CA certificates, users, name service switch, directories
    iptables  the programs iptables, iptables-save and iptables-restore for IPv4 and IPv6, legacy and nft, with their extensions
    program   /usr/local/bin/portolan
"""

import pathlib

from artifacts import ArtifactError, distribution
from artifacts.elf import Elf, Libraries
from artifacts.files import FileTree

PROGRAM = "usr/local/bin/portolan"
# User and group of the container, as in other images without a shell. Manifests of components that need root override it.
USER = 65532
CERTIFICATES = ("etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt")
C_LIBRARY = "libc.so.6"
# The name service of glibc before 2.34 consists of libraries that no program names.
NAME_SERVICE = ("libnss_files.so.2", "libnss_dns.so.2")
# Prefixes of the extensions of iptables. Those of arptables and ebtables stay out.
EXTENSIONS = ("libxt_", "libipt_", "libip6t_")
MULTI_CALL = {"nft": "xtables-nft-multi", "legacy": "xtables-legacy-multi"}


class RootFilesystem:
    """Root file system of the distribution that the image takes libraries and programs from."""

    def __init__(self, sysroot):
        self.path = pathlib.Path(sysroot)
        self.libraries = Libraries(sysroot)
        self.database = distribution.Database(self.path)

    def first(self, candidates, package):
        """Returns the first of several paths that exists."""
        for candidate in candidates:
            if (self.path / candidate).is_file():
                return self.path / candidate
        raise ArtifactError(f"expected {' or '.join(candidates)} below {self.path}, found none; install {package} there")


def base(root, program, certificates):
    """Returns the layer that changes only with the distribution."""
    tree = FileTree()
    for directory, mode in (("tmp", 0o1777), ("run", 0o755), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755), ("var/lib", 0o755)):
        tree.directory(directory, mode)
    tree.link("var/run", "/run")
    tree.file("etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n")
    tree.file("etc/group", f"root:x:0:\nnonroot:x:{USER}:\n")
    tree.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    tree.file(CERTIFICATES[0], certificates or root.first(CERTIFICATES, "ca-certificates").read_bytes())
    add_libraries(tree, root, [program])
    distribution.add_release(tree, root.path)
    root.database.add_records(tree)
    return tree


def add_libraries(tree, root, programs, present=()):
    """Adds the loader and the libraries of programs, and returns their names.

    All libraries go to the directory of the C library, which its loader searches without a configuration. Names in `present` are in a
    lower layer.
    """
    interpreter = programs[0].interpreter()
    if interpreter is None:
        return set()
    libraries = root.libraries.closure(programs)
    loader = Elf(root.first([interpreter.lstrip("/")], "the C library"))
    if not present:
        tree.file(interpreter, loader.data, 0o755)
        found = {name: root.libraries.find(name, programs[0]) for name in NAME_SERVICE}
        libraries.update({name: library for name, library in found.items() if library})
    # A program that needs the loader as a library finds it in memory.
    libraries.pop(pathlib.PurePath(interpreter).name, None)
    if C_LIBRARY not in libraries:
        raise ArtifactError(f"expected a program that is static or needs {C_LIBRARY} (glibc): {programs[0].path}")
    directory = libraries[C_LIBRARY].path.parent.relative_to(root.path)
    for name, library in libraries.items():
        if name not in present:
            tree.file(f"{directory}/{name}", library.data)
    return set(libraries)


def iptables(root, program):
    """Returns the layer for iptables mode, and for the removal of chains of kube-proxy's iptables mode."""
    tree = FileTree()
    programs = []
    for variant, name in MULTI_CALL.items():
        file = Elf(root.first([f"usr/sbin/{name}", f"sbin/{name}"], "iptables"))
        programs.append(file)
        tree.file(f"usr/sbin/{name}", file.data, 0o755)
        for family in ("iptables", "ip6tables"):
            for action in ("", "-save", "-restore"):
                tree.link(f"usr/sbin/{family}-{variant}{action}", name)
    for family in ("iptables", "ip6tables"):
        for action in ("", "-save", "-restore"):
            tree.link(f"usr/sbin/{family}{action}", MULTI_CALL["nft"])
    extensions = sorted(extension_directory(root, program).iterdir())
    for extension in extensions:
        if extension.name.startswith(EXTENSIONS):
            add_extension(tree, root, extension)
    loaded = [Elf(extension) for extension in extensions if extension.name.startswith(EXTENSIONS) and not extension.is_symlink()]
    base_libraries = add_libraries(FileTree(), root, [program])
    add_libraries(tree, root, programs + loaded, present=base_libraries)
    root.database.add_records(tree)
    return tree


def extension_directory(root, program):
    """Returns the directory of the extensions of iptables, which its library has compiled in."""
    for directory in (f"usr/lib/{program.multiarch}/xtables", "usr/lib64/xtables", "usr/lib/xtables"):
        if (root.path / directory).is_dir():
            return root.path / directory
    raise ArtifactError(f"expected the directory xtables of iptables' extensions below {root.path}/usr/lib, found none; install iptables there")


def add_extension(tree, root, extension):
    """Adds an extension at the path that it has in the root file system."""
    path = extension.relative_to(root.path).as_posix()
    if extension.is_symlink():
        tree.link(path, extension.readlink().as_posix())
    else:
        tree.file(path, extension.read_bytes())


def program_layer(program):
    """Returns the layer that changes with each build."""
    tree = FileTree()
    tree.file(PROGRAM, program.data, 0o755)
    return tree
