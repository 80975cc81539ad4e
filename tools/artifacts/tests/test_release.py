"""Releases: reproducibility, archive, Debian package and bill of materials."""

import json
import os
import pathlib
import re
import tarfile
import tempfile
import unittest

from artifacts import debian
from artifacts.elf import Elf
from artifacts.tests import PROGRAM, ROOT, ArtifactTest, run

# Program that writes units, completions and manual pages.
HOST_BINARY = os.environ.get("PORTOLAN", ROOT / "target/debug/portolan")
STATUS = """Package: {name}
Status: install ok installed
Architecture: {architecture}
Maintainer: nobody <nobody@localhost>
Version: {version}
Description: stand-in

"""


class ReleaseTest(ArtifactTest):
    """Test with the files of one release."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.release = pathlib.Path(directory.name)
        cls.build(cls.release)

    @staticmethod
    def build(output):
        """Runs tools/release with a stand-in for the release binary."""
        return run([ROOT / "tools/release", "--binary", PROGRAM, "--host-binary", HOST_BINARY, "--output", output])

    def file(self, pattern):
        """Returns the file of the release whose name matches."""
        (found,) = self.release.glob(pattern)
        return found


class Files(ReleaseTest):
    def test_same_input_has_the_same_checksums(self):
        self.build(self.directory)
        sums = (self.directory / "SHA256SUMS").read_text()
        self.assertEqual(sums, (self.release / "SHA256SUMS").read_text())
        self.assertEqual(len(sums.splitlines()), 3)
        run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.directory)

    def test_archive_has_program_units_completions_and_pages(self):
        path = self.file("*.tar.gz")
        with tarfile.open(path) as archive:
            content = {entry.name.partition("/")[2]: entry for entry in archive.getmembers()}
            self.assertEqual(archive.extractfile(content["portolan"]).read(), PROGRAM.read_bytes())
            unit = archive.extractfile(content["systemd/portolan-join.service"]).read().decode()
        self.assertEqual({entry.name.partition("/")[0] for entry in content.values()}, {path.name.removesuffix(".tar.gz")})
        self.assertEqual(content["portolan"].mode, 0o755)
        expected = {"LICENSE", "THIRD-PARTY-LICENSES.txt", "portolan.cdx.json", "completions/_portolan", "man/man1/portolan-proxy.1"}
        self.assertLessEqual(expected, content.keys())
        self.assertIn("\nExecStart=/usr/local/bin/portolan join $PORTOLAN_FLAGS\n", unit)

    def test_rejects_a_directory_with_files(self):
        (self.directory / "file").write_text("")
        with self.assertRaisesRegex(AssertionError, "expected an empty directory"):
            self.build(self.directory)


class BillOfMaterials(ReleaseTest):
    def setUp(self):
        super().setUp()
        self.bill = json.loads(self.file("*.cdx.json").read_text())
        self.references = [entry["bom-ref"] for entry in self.bill["components"]]

    def test_lists_linked_crates_only(self):
        names = {entry["name"] for entry in self.bill["components"]}
        self.assertLessEqual({"dataplane", "rustls", "sqlite", "tokio"}, names)
        self.assertEqual(names & {"serde_derive", "tempfile", "bench"}, set(), "macros, test dependencies and other programs")

    def test_edges_name_components(self):
        self.assertEqual(len(self.references), len(set(self.references)))
        root = self.bill["metadata"]["component"]["bom-ref"]
        edges = {entry["ref"]: entry["dependsOn"] for entry in self.bill["dependencies"]}
        self.assertEqual(edges.keys(), {root, *self.references})
        reached, queue = set(), [root]
        while queue:
            name = queue.pop()
            if name not in reached:
                reached.add(name)
                queue += edges[name]
        self.assertEqual(reached, edges.keys())

    def test_crates_of_other_projects_have_checksum_and_license(self):
        crates = [entry for entry in self.bill["components"] if entry.get("purl", "").startswith("pkg:cargo/")]
        self.assertGreater(len(crates), 100)
        for entry in crates:
            self.assertRegex(entry["hashes"][0]["content"], "^[0-9a-f]{64}$", entry["name"])
            self.assertTrue(entry["licenses"], entry["name"])


class DebianPackage(ReleaseTest):
    def setUp(self):
        super().setUp()
        self.needs("dpkg", "dpkg-deb")

    def dpkg(self, *arguments, **options):
        """Runs dpkg on a root directory in a user namespace. The scripts see DPKG_ROOT."""
        self.needs_namespaces()
        command = ["dpkg", f"--root={self.directory}", "--force-script-chrootless", "--log=/dev/null"]
        return run(["unshare", "--map-root-user", *command, *arguments], **options)

    def root(self, glibc):
        """Prepares a root directory in which the C library is installed."""
        database = self.directory / "var/lib/dpkg"
        for name in ("info", "updates"):
            (database / name).mkdir(parents=True)
        packages = {"libc6": glibc, "libgcc-s1": "12.2.0-14"}
        architecture = Elf(PROGRAM).debian_architecture
        text = "".join(STATUS.format(name=name, version=version, architecture=architecture) for name, version in packages.items())
        (database / "status").write_text(text)

    def test_control_fields_are_read_by_dpkg_deb(self):
        package = self.file("*.deb")
        fields = run(["dpkg-deb", "--field", package]).stdout
        self.assertIn("Package: portolan\n", fields)
        self.assertIn(f"Architecture: {Elf(PROGRAM).debian_architecture}\n", fields)
        self.assertRegex(fields, rf"\nDepends: libc6 \(>= {re.escape(Elf(PROGRAM).glibc_version())}\)\n")
        self.assertEqual(package.name, "_".join(run(["dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", package]).stdout.split()) + ".deb")
        contents = run(["dpkg-deb", "--contents", package]).stdout
        self.assertRegex(contents, r"-rwxr-xr-x 0/0 .* \./usr/bin/portolan\n")
        self.assertIn("./usr/share/man/man1/portolan.1.gz\n", contents)

    def test_dependencies_are_those_of_dpkg_shlibdeps(self):
        self.needs("dpkg-shlibdeps")
        (self.directory / "debian").mkdir()
        (self.directory / "debian/control").write_text("Source: portolan\n\nPackage: portolan\nArchitecture: any\n")
        printed = run(["dpkg-shlibdeps", "-O", PROGRAM], cwd=self.directory).stdout.strip()
        self.assertEqual(printed, "shlibs:Depends=" + debian.depends(Elf(PROGRAM)))

    def test_installs_and_purges_without_leftovers(self):
        self.root("2.36-9")
        before = {path for path in self.directory.rglob("*") if "var/lib/dpkg" not in path.as_posix()}
        self.dpkg("--install", self.file("*.deb"))
        self.assertEqual((self.directory / "usr/bin/portolan").read_bytes(), PROGRAM.read_bytes())
        unit = (self.directory / "usr/lib/systemd/system/portolan.service").read_text()
        self.assertIn("\nEnvironmentFile=-/etc/default/portolan\nExecStart=/usr/bin/portolan up $PORTOLAN_FLAGS\n", unit)
        self.assertEqual(self.dpkg("--verify", "portolan").stdout, "")
        flags = self.directory / "etc/default/portolan"
        flags.write_text("PORTOLAN_FLAGS=--log-level=debug\n")
        self.dpkg("--install", "--force-confold", self.file("*.deb"))
        self.dpkg("--remove", "portolan")
        self.assertEqual(flags.read_text(), "PORTOLAN_FLAGS=--log-level=debug\n")
        self.assertFalse((self.directory / "usr/bin/portolan").exists())
        self.dpkg("--purge", "portolan")
        after = {path for path in self.directory.rglob("*") if "var/lib/dpkg" not in path.as_posix()}
        self.assertEqual({path for path in after - before if not path.is_dir()}, set())
        self.assertNotIn("portolan", (self.directory / "var/lib/dpkg/status").read_text())

    def test_refuses_an_older_c_library(self):
        self.root("2.3-1")
        done = self.dpkg("--install", self.file("*.deb"), is_checked=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("portolan depends on libc6 (>=", done.stderr)

    def test_scripts_are_valid_and_silent_without_systemd(self):
        for name, script in debian.SCRIPTS.items():
            path = self.directory / name
            path.write_text(script)
            for action in ("configure", "remove", "purge", "upgrade"):
                done = run(["sh", path, action, "0.0.1"], variables={"DPKG_ROOT": str(self.directory)})
                self.assertEqual(done.stdout + done.stderr, "")


class Dependencies(unittest.TestCase):
    def test_versions_compare_as_numbers(self):
        self.assertEqual(max(["2.9", "2.34", "2.17.1"], key=debian.numbers), "2.34")


if __name__ == "__main__":
    unittest.main()
