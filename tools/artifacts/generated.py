"""Files that the program generates: completions, manual pages and systemd units."""

import pathlib
import subprocess
import tempfile

from artifacts import ArtifactError

# Shell to the name of its file in archives, and to its directory in Debian packages.
COMPLETIONS = {
    "bash": ("portolan.bash", "usr/share/bash-completion/completions/portolan"),
    "zsh": ("_portolan", "usr/share/zsh/vendor-completions/_portolan"),
    "fish": ("portolan.fish", "usr/share/fish/vendor_completions.d/portolan.fish"),
}
# Unit to the flags of `portolan service install`. A host runs one of them.
UNITS = {"portolan": [], "portolan-join": ["--join"]}


def run(program, *arguments):
    """Runs a subcommand of the program and returns its output."""
    words = [str(pathlib.Path(program).resolve()), *map(str, arguments)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ArtifactError(f"{program} does not start: {error}; name a binary for this host by --host-binary") from error
    if done.returncode:
        raise ArtifactError(f"{' '.join(words)} exited with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def version(program):
    """Returns the version that the program prints."""
    return run(program, "version").decode().split()[-1]


def completions(program):
    """Returns the completions of each shell."""
    return {shell: run(program, "completions", shell) for shell in COMPLETIONS}


def manual_pages(program):
    """Returns the manual pages by file name."""
    with tempfile.TemporaryDirectory() as directory:
        run(program, "man", directory)
        return {page.name: page.read_bytes() for page in sorted(pathlib.Path(directory).iterdir())}


def units(program, installed):
    """Returns the systemd units by name, for a program at an installed path. /etc/default/UNIT has additional flags."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, flags in UNITS.items():
            file = pathlib.Path(directory) / f"{name}.service"
            paths = ["--unit", file, "--program", installed, "--flags-file", f"/etc/default/{name}"]
            run(program, "service", "install", "--file-only", *paths, *flags)
            found[name] = file.read_bytes()
    return found
