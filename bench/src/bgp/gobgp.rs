//! GoBGP as a router. It has no BFD, and installs no routes in the kernel.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::Member;

use super::{NODES_SYSTEM, ROUTER_SYSTEM};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::process::Measured;

/// Programs of the router.
pub(super) const PROGRAMS: &[&str] = &["gobgpd", "gobgp"];

/// Starts a router with its control socket.
pub(super) fn start(
    environment: &Environment,
    name: &str,
    member: &Member,
    control: &Path,
) -> Result<Measured, Failure> {
    let file = environment.directory.join(format!("{name}.toml"));
    std::fs::write(&file, configuration(environment, member.plan.address.ipv4))?;
    let mut command = Command::new("gobgpd");
    command
        .arg("-f")
        .arg(&file)
        .arg("--pprof-disable")
        .arg(format!("--api-hosts={}", target(control)));
    let mut process = environment.start_component(name, member, command)?;
    process.wait_for_file(control, TIMEOUT)?;
    Ok(process)
}

/// Returns the number of routes of the session with a node.
pub(super) fn routes(control: &Path, node: Ipv4Addr) -> Result<usize, Failure> {
    let output = Command::new("gobgp")
        .arg("--target")
        .arg(target(control))
        .args(["neighbor", &node.to_string(), "-j"])
        .output()?;
    // Until the router has read its configuration, the response is not JSON.
    let neighbor: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let received = neighbor["afi_safis"][0]["state"]["received"]
        .as_u64()
        .unwrap_or(0);
    Ok(usize::try_from(received)?)
}

fn target(control: &Path) -> String {
    format!("unix://{}", control.display())
}

/// Returns the configuration of a router.
fn configuration(environment: &Environment, id: Ipv4Addr) -> String {
    let mut text = format!("[global.config]\nas = {ROUTER_SYSTEM}\nrouter-id = \"{id}\"\nport = 179\n");
    for node in &environment.cluster.topology.nodes {
        let address = node.member.address.ipv4;
        text.push_str(&format!(
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\npeer-as = {NODES_SYSTEM}\n\
             [neighbors.timers.config]\nconnect-retry = 1\n"
        ));
    }
    text
}
