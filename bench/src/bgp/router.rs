//! BIRD as a router with a session to each node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use testbed::Member;

use super::{NODES_SYSTEM, ROUTER_SYSTEM};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::process::Measured;

/// Interval between two queries.
const QUERY_PERIOD: Duration = Duration::from_millis(5);

/// A running BIRD, which is killed with the value.
pub struct Router {
    _process: Measured,
    control: PathBuf,
}

impl Router {
    /// Starts a router in the namespace of a member. With `has_kernel`, its routes are those of the namespace.
    pub fn start(
        environment: &Environment,
        name: &str,
        member: &Member,
        has_kernel: bool,
    ) -> Result<Self, Failure> {
        let id = member.plan.address.ipv4;
        let file = environment.directory.join(format!("{name}.conf"));
        let control = environment.directory.join(format!("{name}.ctl"));
        std::fs::write(&file, configuration(environment, id, has_kernel))?;
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&control);
        command
            .arg("-P")
            .arg(environment.directory.join(format!("{name}.pid")));
        Ok(Self {
            _process: environment.start_component(name, member, command)?,
            control,
        })
    }

    /// Returns the number of routes of a session.
    fn routes(&self, node: usize) -> Result<usize, Failure> {
        let output = Command::new("birdc")
            .arg("-s")
            .arg(&self.control)
            .args(["show", "route", "count", "protocol", &format!("node{node}")])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains(" of "))
            .unwrap_or_default();
        let number = line.split_whitespace().next().unwrap_or("0");
        Ok(number.parse().unwrap_or(0))
    }

    /// Waits until a session has a number of routes.
    pub fn wait_for_routes(&self, node: usize, count: usize) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while self.routes(node)? != count {
            if Instant::now() > deadline {
                return Err(format!("expected {count} routes of node {node}, found another number").into());
            }
            std::thread::sleep(QUERY_PERIOD);
        }
        Ok(())
    }
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
