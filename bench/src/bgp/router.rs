//! Routers with a session to each node.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use testbed::Member;

use super::{bird, frr, gobgp};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::process::Measured;

/// Interval between two queries, each of which starts a program.
const QUERY_PERIOD: Duration = Duration::from_millis(20);

/// Program of the routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    /// BIRD 2
    Bird,
    /// FRR
    Frr,
    /// GoBGP; only the time until all routes are announced, because it installs none in the kernel
    #[value(name = "gobgp")]
    GoBgp,
}

impl Program {
    /// Fails if a program is not installed.
    pub(super) fn require(self) -> Result<(), Failure> {
        let (programs, package) = match self {
            Self::Bird => (bird::PROGRAMS, "bird2"),
            Self::Frr => (frr::PROGRAMS, "frr"),
            Self::GoBgp => (gobgp::PROGRAMS, "gobgpd"),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        for program in programs {
            // An absolute path replaces the directory.
            if !std::env::split_paths(&path).any(|directory| directory.join(program).is_file()) {
                return Err(format!("{program} is not installed, or not in PATH; install {package}").into());
            }
        }
        Ok(())
    }

    /// Returns true if the program has BFD, and installs routes in the kernel.
    pub(super) fn forwards(self) -> bool {
        self != Self::GoBgp
    }
}

/// A running router, whose processes are killed with the value.
pub(super) struct Router {
    _processes: Vec<Measured>,
    program: Program,
    /// Socket of BIRD or GoBGP, or directory of the sockets of FRR.
    control: PathBuf,
    /// Addresses of the nodes.
    nodes: Vec<Ipv4Addr>,
}

impl Router {
    /// Starts a router in the namespace of a member. With `has_kernel`, its routes are those of the namespace.
    pub(super) fn start(
        environment: &Environment,
        program: Program,
        name: &str,
        member: &Member,
        has_kernel: bool,
    ) -> Result<Self, Failure> {
        let control = environment.directory.join(format!("{name}.ctl"));
        let processes = match program {
            Program::Bird => vec![bird::start(environment, name, member, has_kernel, &control)?],
            Program::Frr => frr::start(environment, name, member, has_kernel, &control)?,
            Program::GoBgp => vec![gobgp::start(environment, name, member, &control)?],
        };
        let nodes = environment.cluster.topology.nodes.iter();
        Ok(Self {
            _processes: processes,
            program,
            control,
            nodes: nodes.map(|node| node.member.address.ipv4).collect(),
        })
    }

    /// Returns the number of routes of a session.
    fn routes(&self, node: usize) -> Result<usize, Failure> {
        match self.program {
            Program::Bird => bird::routes(&self.control, node),
            Program::Frr => frr::routes(&self.control, self.address(node)?),
            Program::GoBgp => gobgp::routes(&self.control, self.address(node)?),
        }
    }

    fn is_bfd_up(&self, node: usize) -> Result<bool, Failure> {
        match self.program {
            Program::Bird => bird::is_bfd_up(&self.control, self.address(node)?),
            Program::Frr => frr::is_bfd_up(&self.control, self.address(node)?),
            Program::GoBgp => Ok(false),
        }
    }

    fn address(&self, node: usize) -> Result<Ipv4Addr, Failure> {
        Ok(*self.nodes.get(node).ok_or("no such node")?)
    }

    /// Waits until a session has a number of routes.
    pub(super) fn wait_for_routes(&self, node: usize, count: usize) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let found = self.routes(node)?;
            if found == count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("expected {count} routes of node {node}, found {found}").into());
            }
            std::thread::sleep(QUERY_PERIOD);
        }
    }

    /// Waits until BFD with a node is up.
    pub(super) fn wait_for_bfd(&self, node: usize) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.is_bfd_up(node)? {
            if Instant::now() > deadline {
                return Err(format!("BFD with node {node} does not come up").into());
            }
            std::thread::sleep(QUERY_PERIOD);
        }
        Ok(())
    }
}
