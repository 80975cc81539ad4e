"""Crates that are linked into the program: software bill of materials (CycloneDX 1.5) and license texts.

The crates are those that `cargo metadata` resolves for the platform, without development and build dependencies and without
procedural macros. Cargo resolves the features of all members of the workspace together, so the list may name a crate that only tools use.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import uuid

from artifacts import ArtifactError, archive, project

RUST_TARGETS = {
    "amd64": "x86_64-unknown-linux-gnu",
    "arm64": "aarch64-unknown-linux-gnu",
    "ppc64le": "powerpc64le-unknown-linux-gnu",
    "riscv64": "riscv64gc-unknown-linux-gnu",
}
LICENSE_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Crate with the source of SQLite, and the file that names its version.
SQLITE_CRATE, SQLITE_HEADER = "libsqlite3-sys", "sqlite3/sqlite3.h"


def metadata(architecture):
    """Returns what `cargo metadata` prints for an architecture."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", RUST_TARGETS[architecture]]
    try:
        done = subprocess.run(command, cwd=project.ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ArtifactError(f"cargo does not start: {error}; install Rust") from error
    if done.returncode:
        raise ArtifactError(f"cargo metadata exited with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


class Crates:
    """Linked crates and the edges between them, by package id."""

    def __init__(self, resolved):
        self.packages = {package["id"]: package for package in resolved["packages"]}
        nodes = {node["id"]: node["deps"] for node in resolved["resolve"]["nodes"]}
        members = set(resolved["workspace_members"])
        (self.root,) = (name for name in members if self.packages[name]["name"] == project.NAME)
        self.edges, queue = {}, [self.root]
        while queue:
            name = queue.pop()
            if name not in self.edges:
                self.edges[name] = sorted(edge["pkg"] for edge in nodes[name] if self._is_linked(edge))
                queue += self.edges[name]

    def _is_linked(self, edge):
        """Returns true if the code of a dependency is in the program."""
        targets = self.packages[edge["pkg"]]["targets"]
        is_macro = any("proc-macro" in target["kind"] for target in targets)
        return not is_macro and any(kind["kind"] is None for kind in edge["dep_kinds"])

    def sorted(self):
        """Returns the packages except for the program, sorted by name and version."""
        found = [self.packages[name] for name in self.edges if name != self.root]
        return sorted(found, key=lambda package: (package["name"], package["version"]))

    def from_registries(self):
        """Returns the packages of other projects."""
        return [package for package in self.sorted() if package["source"]]


def reference(package):
    """Returns the package URL."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums():
    """Returns the SHA-256 of each archive in Cargo.lock, by name and version."""
    pattern = r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([^"]+)"'
    return {(name, version): checksum for name, version, checksum in re.findall(pattern, (project.ROOT / "Cargo.lock").read_text())}


def component(package, known):
    """Returns the entry of a crate."""
    found = {"type": "library", "name": package["name"], "version": package["version"], "bom-ref": reference(package)}
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        found["purl"] = reference(package)
        checksum = known.get((package["name"], package["version"]))
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}] if checksum else []
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def sqlite(crates):
    """Returns the entry of SQLite, whose source is in a crate."""
    for package in crates.sorted():
        if package["name"] == SQLITE_CRATE:
            header = (pathlib.Path(package["manifest_path"]).parent / SQLITE_HEADER).read_text()
            version = re.search(r'#define SQLITE_VERSION +"([^"]+)"', header)[1]
            found = {"type": "library", "name": "sqlite", "version": version, "bom-ref": f"pkg:generic/sqlite@{version}"}
            return reference(package), {**found, "purl": found["bom-ref"], "cpe": f"cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*"}
    return None


def bill_of_materials(crates, program):
    """Returns the bill of materials of a program as CycloneDX JSON."""
    known = checksums()
    root = crates.packages[crates.root]
    components = [component(package, known) for package in crates.sorted()]
    edges = {reference(crates.packages[name]): [reference(crates.packages[to]) for to in edges] for name, edges in crates.edges.items()}
    if bundled := sqlite(crates):
        owner, entry = bundled
        components.append(entry)
        edges[owner] = [*edges[owner], entry["bom-ref"]]
        edges[entry["bom-ref"]] = []
    time = datetime.datetime.fromtimestamp(archive.source_date(), datetime.timezone.utc)
    described = {"type": "application", "name": project.NAME, "version": root["version"], "bom-ref": reference(root)}
    described["description"] = project.SUMMARY
    described["licenses"] = [{"expression": project.LICENSE}]
    described["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(program.data).hexdigest()}]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": described},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": sorted(edges[name])} for name in sorted(edges)],
    }
    bill["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True)).urn
    return (json.dumps(bill, indent=1, sort_keys=True) + "\n").encode()


def license_texts(crates):
    """Returns the licenses of the linked crates of other projects: a list, then each distinct text with its crates."""
    users, lines = {}, [f"Licenses of the crates that are linked into {project.NAME}.", ""]
    for package in crates.from_registries():
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license'] or 'see its license file'}")
        for file in sorted(pathlib.Path(package["manifest_path"]).parent.iterdir()):
            if LICENSE_FILE.match(file.name) and file.is_file():
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                users.setdefault(text, []).append(name)
    for text, names in users.items():
        lines += ["", "=" * 80, ", ".join(sorted(set(names))), "=" * 80, "", text]
    return ("\n".join(lines) + "\n").encode()
