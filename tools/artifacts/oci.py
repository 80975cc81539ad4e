"""OCI image layouts, and archives that `docker load` reads too.

The layout follows the OCI image specification 1.0: `oci-layout`, `index.json` and `blobs/sha256/`. The archive adds `manifest.json`,
which docker save writes beside the same blobs, so that containerd, Docker, Podman and skopeo read one file.
"""

import datetime
import hashlib
import json

from artifacts import archive
from artifacts.files import FileTree

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    """Returns the OCI digest of data."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob_path(name):
    """Returns the path of a blob in the layout."""
    return "blobs/" + name.replace(":", "/")


def to_json(value):
    """Returns a value as JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """Layout of one image: blobs, index and tags."""

    def __init__(self):
        self.tree = FileTree()
        self.tree.file("oci-layout", to_json({"imageLayoutVersion": "1.0.0"}))

    def _blob(self, media_type, data):
        """Adds a blob and returns its descriptor."""
        self.tree.file(blob_path(digest(data)), data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def add(self, layers, platform, run, tags):
        """Adds the image and returns its digest.

        Layers are pairs of a FileTree and a description, the lowest first. `run` is the execution part of the image configuration.
        """
        created = datetime.datetime.fromtimestamp(archive.source_date(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        operating_system, architecture = platform.split("/")
        archives = [(archive.tar(tree), description) for tree, description in layers]
        config = self._blob(
            CONFIG,
            to_json(
                {
                    "architecture": architecture,
                    "os": operating_system,
                    "created": created,
                    "config": run,
                    "rootfs": {"type": "layers", "diff_ids": [digest(data) for data, _ in archives]},
                    "history": [{"created": created, "created_by": description} for _, description in archives],
                }
            ),
        )
        descriptors = [self._blob(LAYER, archive.compress(data)) for data, _ in archives]
        manifest = self._blob(
            MANIFEST,
            to_json(
                {
                    "schemaVersion": 2,
                    "mediaType": MANIFEST,
                    "config": config,
                    "layers": descriptors,
                    "annotations": run["Labels"],
                }
            ),
        )
        manifest["platform"] = {"architecture": architecture, "os": operating_system}
        self.tree.file("index.json", to_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": named(manifest, tags)}))
        saved = {"Config": blob_path(config["digest"]), "RepoTags": tags, "Layers": [blob_path(layer["digest"]) for layer in descriptors]}
        self.tree.file("manifest.json", to_json([saved]))
        return manifest["digest"]

    def archive(self):
        """Returns the layout as a tar archive that is also an archive of docker save."""
        return archive.tar(self.tree)

    def write(self, directory):
        """Writes the layout to a directory, without the parts of docker save."""
        for path, entry in self.tree:
            if entry.content is None:
                (directory / path).mkdir(parents=True, exist_ok=True)
            elif path != "manifest.json":
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(entry.content)


def named(manifest, tags):
    """Returns a descriptor for each tag. containerd reads the first annotation, the other tools read the second."""
    names = [{"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": tag.rpartition(":")[2]} for tag in tags]
    return [{**manifest, "annotations": name} for name in names]
