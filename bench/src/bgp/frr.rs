//! FRR as a router: `zebra`, `bfdd` and `bgpd`.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::Member;

use super::{NODES_SYSTEM, ROUTER_SYSTEM};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::process::Measured;

/// Directory of the daemons.
const DAEMONS: &str = "/usr/lib/frr";
/// Configuration of `bfdd`.
const BFD: &str =
    "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 50\n  transmit-interval 50\n";
/// Configuration of `zebra`: routes in the kernel have their gateways themselves.
const ZEBRA: &str = "no zebra nexthop kernel enable\n";
/// Programs of the router.
pub(super) const PROGRAMS: &[&str] = &[
    "/usr/lib/frr/zebra",
    "/usr/lib/frr/bfdd",
    "/usr/lib/frr/bgpd",
    "vtysh",
];

/// Starts a router with the directory of its sockets. With `has_kernel`, its routes are those of the namespace.
pub(super) fn start(
    environment: &Environment,
    name: &str,
    member: &Member,
    has_kernel: bool,
    control: &Path,
) -> Result<Vec<Measured>, Failure> {
    own_group()?;
    std::fs::create_dir(control)?;
    std::fs::write(control.join("vtysh.conf"), "")?;
    let bgpd = configuration(environment, member.plan.address.ipv4);
    let mut processes = Vec::new();
    for (daemon, configuration) in [("zebra", ZEBRA), ("bfdd", BFD), ("bgpd", bgpd.as_str())] {
        let file = control.join(format!("{daemon}.conf"));
        std::fs::write(&file, configuration)?;
        let mut command = Command::new(format!("{DAEMONS}/{daemon}"));
        command.arg("--vty_socket").arg(control);
        command.arg("-i").arg(control.join(format!("{daemon}.pid")));
        command.arg("-z").arg(control.join("zserv.api"));
        command.arg("-f").arg(&file);
        // No network address for the command line; user and group exist in the namespace.
        command.args(["-P", "0", "-u", "root", "-g", "root"]);
        match daemon {
            "bfdd" => {
                command.arg("--bfdctl").arg(control.join("bfdd.sock"));
            }
            "bgpd" if !has_kernel => {
                command.arg("--no_kernel");
            }
            _ => {}
        }
        let mut process = environment.start_component(&format!("{name}-{daemon}"), member, command)?;
        // A daemon that starts before zebra listens connects with a delay.
        process.wait_for_file(&control.join(format!("{daemon}.vty")), TIMEOUT)?;
        processes.push(process);
    }
    Ok(processes)
}

/// Returns the number of routes of the session with a node.
pub(super) fn routes(control: &Path, node: Ipv4Addr) -> Result<usize, Failure> {
    let summary = query(control, "show bgp ipv4 unicast summary json")?;
    let summary = summary.get("ipv4Unicast").unwrap_or(&summary);
    let count = summary["peers"][node.to_string()]["pfxRcd"].as_u64().unwrap_or(0);
    Ok(usize::try_from(count)?)
}

/// Returns true if BFD with a node is up.
pub(super) fn is_bfd_up(control: &Path, node: Ipv4Addr) -> Result<bool, Failure> {
    let node = node.to_string();
    let peers = query(control, "show bfd peers json")?;
    let mut peers = peers.as_array().into_iter().flatten();
    Ok(peers.any(|peer| peer["peer"] == node && peer["status"] == "up"))
}

/// Returns the response to a command; `null` if it is not JSON, as without sessions.
fn query(control: &Path, command: &str) -> Result<Value, Failure> {
    let output = Command::new("vtysh")
        .arg("--vty_socket")
        .arg(control)
        .arg("--config_dir")
        .arg(control)
        .args(["-c", command])
        .output()?;
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

/// Returns the configuration of `bgpd`.
fn configuration(environment: &Environment, id: Ipv4Addr) -> String {
    let mut text = format!("router bgp {ROUTER_SYSTEM}\n bgp router-id {id}\n no bgp ebgp-requires-policy\n");
    let nodes = environment.cluster.topology.nodes.iter();
    let addresses: Vec<Ipv4Addr> = nodes.map(|node| node.member.address.ipv4).collect();
    for address in &addresses {
        text.push_str(&format!(
            " neighbor {address} remote-as {NODES_SYSTEM}\n neighbor {address} bfd\n neighbor {address} bfd profile fast\n \
             neighbor {address} timers connect 1\n"
        ));
    }
    text.push_str(" address-family ipv4 unicast\n  maximum-paths 1\n");
    for address in &addresses {
        text.push_str(&format!("  neighbor {address} activate\n"));
    }
    text.push_str(" exit-address-family\n");
    text
}

/// Makes root a member of the group of FRR's command line, for this namespace only: the daemons demand it.
fn own_group() -> Result<(), Failure> {
    let groups = std::fs::read_to_string("/etc/group")?;
    let own: Vec<String> = groups
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("frrvty", _)) => "frrvty:x:0:root".to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    testbed::cover_file("/etc/group", &(own.join("\n") + "\n"))?;
    Ok(())
}
