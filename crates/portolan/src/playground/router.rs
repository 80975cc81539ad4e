//! The gateway of the client outside: BIRD, to which the nodes announce addresses by BGP, and whose routes the client uses.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testbed::Topology;

use crate::error::CommandError;

/// Autonomous system of the nodes, as in the example.
const NODES_SYSTEM: u32 = 64_512;
/// Autonomous system of the router, as in the example.
const ROUTER_SYSTEM: u32 = 64_513;

/// Returns true if BIRD is installed.
pub(super) fn is_installed() -> bool {
    let version = Command::new("bird")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Writes the configuration of the router, and returns its command.
///
/// # Errors
///
/// An error if the file cannot be written.
pub(super) fn command(topology: &Topology, directory: &Path) -> Result<Command, CommandError> {
    let file = directory.join("bird.conf");
    fs::write(&file, configuration(topology))?;
    let mut command = Command::new("bird");
    command.arg("-f").arg("-c").arg(&file);
    command.arg("-s").arg(directory.join("bird.ctl"));
    command.arg("-P").arg(directory.join("bird.pid"));
    Ok(command)
}

/// Returns the configuration: sessions with all nodes, and routes over all nodes that announce an address.
fn configuration(topology: &Topology) -> String {
    let router = topology.outside.address.ipv4;
    let mut text = format!("router id {router};\nprotocol device {{}}\n");
    for family in ["ipv4", "ipv6"] {
        text.push_str(&format!(
            "protocol kernel {{ merge paths yes; {family} {{ import none; export where source = RTS_BGP; }}; }}\n"
        ));
    }
    for (index, node) in topology.nodes.iter().enumerate() {
        let address = node.member.address.ipv4;
        text.push_str(&format!(
            "protocol bgp node{index} {{ local as {ROUTER_SYSTEM}; neighbor {address} as {NODES_SYSTEM}; passive; \
             ipv4 {{ import all; export none; }}; ipv6 {{ import all; export none; }}; }}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests;
