//! Identity of the host in the status of the Node (cAdvisor's `MachineInfo` and `VersionInfo`).

use std::path::Path;

use serde_json::{Value, json};

/// Name of a system without a name of its own, as upstream.
const UNNAMED_SYSTEM: &str = "Linux";

/// Returns the `nodeInfo` of the host whose root directory is `root`. As upstream's, an identity that cannot be read is
/// empty.
pub(super) fn node_info(root: &Path) -> Value {
    let machine_id = line_of(root, "etc/machine-id");
    let mut system_uuid = line_of(root, "sys/class/dmi/id/product_uuid");
    if system_uuid.is_empty() {
        system_uuid.clone_from(&machine_id);
    }
    json!({
        "operatingSystem": "linux",
        "architecture": super::architecture(),
        "kubeletVersion": concat!("portolan/", env!("CARGO_PKG_VERSION")),
        "containerRuntimeVersion": "process://1",
        "kernelVersion": rustix::system::uname().release().to_string_lossy(),
        "osImage": os_image(root),
        "machineID": machine_id,
        "systemUUID": system_uuid,
        "bootID": line_of(root, "proc/sys/kernel/random/boot_id"),
    })
}

/// Returns the name of the system in os-release(5).
fn os_image(root: &Path) -> String {
    let release = std::fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let mut lines = release.lines();
    let name = lines.find_map(|line| line.strip_prefix("PRETTY_NAME="));
    match name.map(|name| name.trim().trim_matches(['"', '\''])) {
        None | Some("") => UNNAMED_SYSTEM.to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Returns the text of a file with one line, or an empty one if the file cannot be read.
fn line_of(root: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
    text.trim().to_owned()
}
