//! BIRD as the router of the measurement.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use testbed::Member;

use super::{NODES_SYSTEM, ROUTER_SYSTEM};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::process::Measured;

/// Programs of the router.
pub(super) const PROGRAMS: &[&str] = &["bird", "birdc"];

/// Starts a router with its control socket. With `has_kernel`, its routes are those of the namespace.
pub(super) fn start(
    environment: &Environment,
    name: &str,
    member: &Member,
    has_kernel: bool,
    control: &Path,
) -> Result<Measured, Failure> {
    let id = member.plan.address.ipv4;
    let file = environment.directory.join(format!("{name}.conf"));
    std::fs::write(&file, configuration(environment, id, has_kernel))?;
    let mut command = Command::new("bird");
    command.arg("-f").arg("-c").arg(&file).arg("-s").arg(control);
    command
        .arg("-P")
        .arg(environment.directory.join(format!("{name}.pid")));
    let mut process = environment.start_component(name, member, command)?;
    process.wait_for_file(control, TIMEOUT)?;
    Ok(process)
}

/// Returns the number of routes of a session.
pub(super) fn routes(control: &Path, node: usize) -> Result<usize, Failure> {
    let session = format!("node{node}");
    let text = query(control, &["show", "route", "count", "protocol", &session])?;
    let line = text
        .lines()
        .find(|line| line.contains(" of "))
        .unwrap_or_default();
    let number = line.split_whitespace().next().unwrap_or("0");
    Ok(number.parse().unwrap_or(0))
}

/// Returns true if BFD with a node is up.
pub(super) fn is_bfd_up(control: &Path, node: Ipv4Addr) -> Result<bool, Failure> {
    let node = node.to_string();
    let sessions = query(control, &["show", "bfd", "sessions"])?;
    Ok(sessions.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(node.as_str()) && fields.any(|field| field == "Up")
    }))
}

fn query(control: &Path, command: &[&str]) -> Result<String, Failure> {
    let output = Command::new("birdc")
        .arg("-s")
        .arg(control)
        .args(command)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the configuration of a router.
fn configuration(environment: &Environment, id: Ipv4Addr, has_kernel: bool) -> String {
    let mut text = format!(
        "router id {id};\nprotocol device {{}}\n\
         protocol bfd {{ interface \"*\" {{ interval 50 ms; multiplier 3; }}; }}\n"
    );
    if has_kernel {
        text.push_str("protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }\n");
    }
    for (index, node) in environment.cluster.topology.nodes.iter().enumerate() {
        let address = IpAddr::from(node.member.address.ipv4);
        text.push_str(&format!(
            "protocol bgp node{index} {{ local as {ROUTER_SYSTEM}; neighbor {address} as {NODES_SYSTEM}; direct; bfd on; \
             connect delay time 1; connect retry time 1; error wait time 1, 1; ipv4 {{ import all; export none; }}; }}\n"
        ));
    }
    text
}
