"""Images: reproducibility, the rules of the OCI layout, and programs that start from the layers."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time
import unittest

from artifacts import distribution
from artifacts.elf import Elf
from artifacts.files import FileTree
from artifacts.tests import CERTIFICATES, PROGRAM, ROOT, ArtifactTest, run

TAG = "registry.example/portolan:test"
CONTAINERD_START_SECONDS = 60
# Rules with the matches and targets of kube-proxy's iptables mode.
RULES = """*nat
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -p tcp -m comment --comment "a b" -m statistic --mode random --probability 0.5 -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -p tcp -m recent --name KUBE-SEP --rcheck --seconds 5 --reap --rsource -m tcp -j DNAT --to-destination 192.0.2.1:80
COMMIT
"""


class ImageTest(ArtifactTest):
    """Test that builds images."""

    def build(self, output, *flags, **options):
        """Runs tools/image."""
        certificates = self.directory / "certificates.pem"
        certificates.write_text(CERTIFICATES)
        default = {"--binary": PROGRAM, "--output": self.directory / output, "--ca-certificates": certificates, "--tag": TAG}
        command = [ROOT / "tools/image", *(word for pair in default.items() for word in pair), *flags]
        return run(command, **options)

    def layout(self, *flags, **options):
        """Builds a layout and returns its directory, image manifest and configuration."""
        self.build("layout", *flags, **options)
        directory = self.directory / "layout"
        index = json.loads((directory / "index.json").read_text())
        manifest = json.loads(blob(directory, index["manifests"][0]["digest"]))
        return directory, manifest, json.loads(blob(directory, manifest["config"]["digest"]))

    def extracted(self, *flags):
        """Builds an image and returns a directory with the content of its layers."""
        directory, manifest, _ = self.layout(*flags)
        target = self.directory / "root"
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(directory, layer["digest"])))) as archive:
                archive.extractall(target)
        return target


def blob(directory, name):
    """Returns the content of a blob."""
    return (directory / "blobs" / name.replace(":", "/")).read_bytes()


def sha256(data):
    """Returns the digest of data."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def chroot(root, *command, **options):
    """Runs a program of an extracted image in a user namespace and a network namespace."""
    return run(["unshare", "--map-root-user", "--net", "chroot", root, *command], **options)


class Reproducibility(ImageTest):
    def test_same_input_has_the_same_digest(self):
        copy = self.directory / "copy"
        shutil.copyfile(PROGRAM, copy)
        os.utime(copy, (1, 1))
        previous = os.umask(0o077)
        self.addCleanup(os.umask, previous)
        first = self.build("first.tar").stdout
        os.umask(0o022)
        second = self.build("second.tar", "--binary", copy).stdout
        self.assertRegex(first, rf"^{TAG} sha256:[0-9a-f]{{64}}\n$")
        self.assertEqual(first, second)
        self.assertEqual((self.directory / "first.tar").read_bytes(), (self.directory / "second.tar").read_bytes())

    def test_other_binary_changes_only_the_program_layer(self):
        directory, manifest, _ = self.layout()
        shutil.rmtree(directory)
        other = self.directory / "other"
        other.write_bytes(PROGRAM.read_bytes() + b"\0")
        _, changed, _ = self.layout("--binary", other)
        self.assertEqual(manifest["layers"][0], changed["layers"][0])
        self.assertNotEqual(manifest["layers"][1], changed["layers"][1])

    def test_entries_have_one_time_and_one_owner(self):
        directory, manifest, config = self.layout(source_date="1000000000")
        self.assertEqual(config["created"], "2001-09-09T01:46:40Z")
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(directory, layer["digest"])))) as archive:
                entries = archive.getmembers()
            self.assertEqual({(entry.mtime, entry.uid, entry.gid, entry.uname) for entry in entries}, {(1000000000, 0, 0, "")})
            self.assertEqual([entry.name for entry in entries], sorted(entry.name for entry in entries))


class Layouts(ImageTest):
    def test_descriptors_match_their_blobs(self):
        directory, manifest, config = self.layout("--variant", "default")
        self.assertEqual(json.loads((directory / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        index = json.loads((directory / "index.json").read_text())
        descriptors = [*index["manifests"], manifest["config"], *manifest["layers"]]
        for descriptor in descriptors:
            data = blob(directory, descriptor["digest"])
            self.assertEqual((sha256(data), len(data)), (descriptor["digest"], descriptor["size"]))
        self.assertEqual({path.name for path in (directory / "blobs/sha256").iterdir()}, {entry["digest"][7:] for entry in descriptors})
        uncompressed = [sha256(gzip.decompress(blob(directory, layer["digest"]))) for layer in manifest["layers"]]
        self.assertEqual(config["rootfs"], {"type": "layers", "diff_ids": uncompressed})
        self.assertEqual(len(config["history"]), len(uncompressed))

    def test_configuration_names_user_entrypoint_and_labels(self):
        _, manifest, config = self.layout("--label", "org.opencontainers.image.revision=abc")
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/local/bin/portolan"])
        labels = config["config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.revision"], "abc")
        self.assertLessEqual({"org.opencontainers.image.version", "org.opencontainers.image.licenses"}, labels.keys())
        self.assertEqual(manifest["annotations"], labels)

    def test_archive_is_a_layout_and_a_docker_save(self):
        self.build("image.tar", "--tag", "localhost/portolan:second")
        with tarfile.open(self.directory / "image.tar") as archive:
            content = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers() if entry.isfile()}
        (saved,) = json.loads(content["manifest.json"])
        self.assertEqual(saved["RepoTags"], [TAG, "localhost/portolan:second"])
        manifests = json.loads(content["index.json"])["manifests"]
        self.assertEqual([entry["annotations"]["io.containerd.image.name"] for entry in manifests], saved["RepoTags"])
        manifest = json.loads(content["blobs/" + manifests[0]["digest"].replace(":", "/")])
        paths = ["blobs/" + entry["digest"].replace(":", "/") for entry in [manifest["config"], *manifest["layers"]]]
        self.assertEqual([saved["Config"], *saved["Layers"]], paths)
        self.assertLessEqual({*paths, "oci-layout"}, content.keys())

    def test_default_tag_has_the_version_and_the_variant(self):
        self.needs("xtables-nft-multi")
        certificates = self.directory / "certificates.pem"
        certificates.write_text(CERTIFICATES)
        flags = ["--binary", PROGRAM, "--ca-certificates", certificates, "--variant", "iptables"]
        printed = run([ROOT / "tools/image", *flags, "--output", self.directory / "image.tar"]).stdout
        self.assertRegex(printed, r"^localhost/portolan:\d+\.\d+\.\d+-iptables sha256:")


class Rejections(ImageTest):
    def assert_rejected(self, message, *flags):
        done = self.build("image.tar", *flags, is_checked=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(message, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_rejects_another_platform(self):
        self.assert_rejected("expected a program for linux/s390x", "--platform", "linux/s390x")

    def test_rejects_a_file_that_is_no_program(self):
        self.assert_rejected("expected a 64-bit little-endian ELF file", "--binary", ROOT / "README.md")

    def test_rejects_a_root_file_system_without_libraries(self):
        self.assert_rejected("which is not below", "--sysroot", self.directory)

    def test_rejects_a_tag_without_version(self):
        self.assert_rejected("expected NAME:TAG", "--tag", "portolan")


class Programs(ImageTest):
    def test_program_starts_from_the_layers(self):
        self.needs_namespaces()
        root = self.extracted()
        done = chroot(root, "/usr/local/bin/portolan", "-c", "echo started")
        self.assertEqual(done.stdout, "started\n")
        self.assertEqual((root / "etc/ssl/certs/ca-certificates.crt").read_text(), CERTIFICATES)
        self.assertEqual((root / "tmp").stat().st_mode & 0o7777, 0o1777)

    def test_iptables_variant_has_both_variants_with_extensions(self):
        self.needs("xtables-nft-multi", "xtables-legacy-multi")
        self.needs_namespaces()
        root = self.extracted("--variant", "iptables")
        for family in ("iptables", "ip6tables"):
            self.assertIn("(nf_tables)", chroot(root, f"/usr/sbin/{family}", "--version").stdout)
            for action in ("", "-save", "-restore"):
                self.assertIn("(legacy)", chroot(root, f"/usr/sbin/{family}-legacy{action}", "--version").stdout)
                self.assertIn("(nf_tables)", chroot(root, f"/usr/sbin/{family}-nft{action}", "--version").stdout)
            for match in ("statistic", "recent", "conntrack", "comment", "mark", "addrtype", "physdev"):
                chroot(root, f"/usr/sbin/{family}-legacy", "-m", match, "-h")
            unknown = chroot(root, f"/usr/sbin/{family}-legacy", "-m", "unknown", "-h", is_checked=False)
            self.assertIn("Couldn't load match", unknown.stderr)

    def test_iptables_variant_writes_rules_of_kube_proxy(self):
        self.needs("xtables-nft-multi", "xtables-legacy-multi")
        self.needs_namespaces()
        root = self.extracted("--variant", "iptables")
        (root / "rules").write_text(RULES)
        script = "/usr/sbin/iptables-nft-restore --noflush /rules && /usr/sbin/iptables-nft-save -t nat"
        done = chroot(root, "/usr/local/bin/portolan", "-c", script, is_checked=False)
        if "Failed to initialize nft" in done.stderr or "does not exist" in done.stderr:
            self.skip(f"the kernel lacks a feature of iptables: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--probability 0.50000000000", done.stdout)
        self.assertIn("-j DNAT --to-destination 192.0.2.1:80", done.stdout)


class Records(ImageTest):
    def test_packages_of_the_libraries_are_recorded(self):
        self.needs("dpkg-query")
        root = self.extracted()
        if not pathlib.Path("/var/lib/dpkg/info").is_dir():
            self.skip("this distribution has no database of dpkg")
        records = {path.name: path.read_text() for path in (root / "var/lib/dpkg/status.d").iterdir()}
        version = run(["dpkg-query", "--show", "--showformat=${Version}", f"libc6:{Elf(PROGRAM).debian_architecture}"]).stdout
        self.assertIn(f"\nVersion: {version}\n", records["libc6"])
        self.assertTrue((root / "etc/os-release").is_file())

    def test_records_name_the_packages_of_the_layer(self):
        sysroot, tree = self.directory, FileTree()
        for path, text in {
            "var/lib/dpkg/info/libone:amd64.list": "/usr/lib/libone.so.1\n",
            "var/lib/dpkg/info/libtwo.list": "/lib/libtwo.so.1\n",
            "var/lib/dpkg/status": "Package: libone\nVersion: 1\n\nPackage: libtwo\nVersion: 2\n\nPackage: other\nVersion: 3\n",
            "usr/share/doc/libone/copyright": "terms\n",
        }.items():
            (sysroot / path).parent.mkdir(parents=True, exist_ok=True)
            (sysroot / path).write_text(text)
        tree.file("lib/libone.so.1", "1")
        tree.file("usr/lib/libtwo.so.1", "2")
        tree.file("etc/other", "3")
        distribution.Database(sysroot).add_records(tree)
        added = {path: entry.content for path, entry in tree if path.startswith(("var", "usr/share")) and entry.content}
        self.assertEqual(added, {
            "usr/share/doc/libone/copyright": b"terms\n",
            "var/lib/dpkg/status.d/libone": b"Package: libone\nVersion: 1\n",
            "var/lib/dpkg/status.d/libtwo": b"Package: libtwo\nVersion: 2\n",
        })


class Containerd(ImageTest):
    """The archive in containerd with its own directories."""

    def start(self):
        """Starts containerd and returns the beginning of a `ctr` command."""
        self.needs("containerd", "ctr", "runc")
        if os.geteuid() != 0:
            self.skip("containerd needs root")
        if run(["unshare", "--mount", "true"], is_checked=False).returncode:
            self.skip("the kernel refuses mount namespaces")
        socket = self.directory / "containerd.sock"
        configuration = self.directory / "containerd.toml"
        disabled = '"io.containerd.grpc.v1.cri"'
        paths = f'root = "{self.directory}/data"\nstate = "{self.directory}/state"\n'
        configuration.write_text(f'version = 2\n{paths}disabled_plugins = [{disabled}]\n[grpc]\naddress = "{socket}"\n')
        log = (self.directory / "containerd.log").open("w")
        self.addCleanup(log.close)
        process = subprocess.Popen(["containerd", "--config", configuration], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        deadline = time.monotonic() + CONTAINERD_START_SECONDS
        while run(["ctr", "--address", socket, "version"], is_checked=False).returncode:
            self.assertLess(time.monotonic(), deadline, (self.directory / "containerd.log").read_text())
            self.assertIsNone(process.poll(), (self.directory / "containerd.log").read_text())
            time.sleep(0.1)
        return ["ctr", "--address", socket]

    def test_containerd_runs_the_image(self):
        ctr = self.start()
        self.build("image.tar")
        run([*ctr, "images", "import", "--snapshotter", "native", self.directory / "image.tar"])
        self.assertIn(TAG, run([*ctr, "images", "list", "--quiet"]).stdout.splitlines())
        script = 'while read -r name id rest; do case $name in Uid:) echo "user $id";; esac; done </proc/self/status'
        done = run([*ctr, "run", "--rm", "--snapshotter", "native", TAG, "test", "/usr/local/bin/portolan", "-c", script])
        self.assertEqual(done.stdout, "user 65532\n")


if __name__ == "__main__":
    unittest.main()
