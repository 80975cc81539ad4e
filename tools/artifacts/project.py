"""Version and descriptions of the project."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = "portolan"
SUMMARY = "Kubernetes Services in one binary: proxy, DNS, controllers, load balancer and API server"
LICENSE = "Apache-2.0"


def version():
    """Returns the version of the workspace."""
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"$', text, re.MULTILINE)[1]
