"""Images and packages from the release binary: the shared parts of tools/image and tools/release.

    elf           dynamic section of ELF files, and the libraries that they need
    archive       reproducible tar archives and gzip streams
    files         files that a package or an image layer holds
    oci           OCI image layouts, and archives that are also read by `docker load`
    layers        content of the layers of Portolan's images
    distribution  packages of the distribution that files of an image come from
    generated     completions, manual pages and systemd units
    dependencies  bill of materials and licenses of the linked crates
    debian        Debian packages
    project       version and descriptions of the project
"""


class ArtifactError(Exception):
    """Input from which nothing can be built. The message states what was expected, what was found, and what to do."""
