//! A running topology: namespaces, links, addresses, routes, settings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command};

use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, Master, NetworkNamespace, Route, RouteError};
use rustix::mount::mount_bind;

use crate::sysctl::write_sysctl;
use crate::topology::{MemberPlan, Topology};

/// Directory with the members' namespaces by name, which `ip netns exec` uses inside of an enclosure.
pub const NETNS_DIRECTORY: &str = "/run/netns";

const BRIDGE: &str = "underlay";
/// Name of a member's link to the others.
pub(crate) const MEMBER_LINK: &str = "eth0";

/// Settings of every member. IPv6 addresses are usable at once, and there are no foreign routes. Reverse path filtering
/// is off, because responses of a Service may take another path.
const MEMBER_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv6.conf.all.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.all.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.all.disable_ipv6", "0"),
    ("net.ipv6.conf.default.disable_ipv6", "0"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
];

/// Settings of a node: it forwards, and sends no redirects.
const NODE_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.forwarding", "1"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
];

/// Failure to start a cluster or to use a member.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kernel rejects a network change. `EPERM` means not root in the enclosure.
    #[error("{member}: cannot change its network: {source}")]
    Network {
        /// Affected member.
        member: String,
        /// Error of the kernel.
        source: RouteError,
    },
    /// A setting cannot be written: no IPv6 in this kernel, or a read-only `/proc/sys`.
    #[error("{member}: cannot set {name} to {value}: {source}")]
    Sysctl {
        /// Affected member.
        member: String,
        /// Name of the setting.
        name: &'static str,
        /// Value of the setting.
        value: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A program did not start.
    #[error("{member}: cannot start {program}: {source}")]
    Spawn {
        /// Affected member.
        member: String,
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A namespace cannot be mounted by name.
    #[error("{member}: cannot mount its namespace: {source}")]
    Publish {
        /// Affected member.
        member: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// No member has this name.
    #[error("expected a member, one of {}; found {name}", names.join(", "))]
    NoMember {
        /// Unknown name.
        name: String,
        /// Names of all members.
        names: Vec<String>,
    },
}

/// A running member.
#[derive(Debug)]
pub struct Member {
    /// Plan of the member.
    pub plan: MemberPlan,
    /// Network namespace of the member.
    pub namespace: NetworkNamespace,
}

impl Member {
    /// Starts `command` in the member's network namespace.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the program cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, ClusterError> {
        self.namespace
            .start_inside(command)
            .map_err(|source| self.network(source))?;
        command.spawn().map_err(|source| ClusterError::Spawn {
            member: self.plan.name.clone(),
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })
    }

    /// Runs `work` on a thread in the member's namespace.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ClusterError> {
        self.namespace.enter(work).map_err(|source| self.network(source))
    }

    fn network(&self, source: RouteError) -> ClusterError {
        ClusterError::Network {
            member: self.plan.name.clone(),
            source,
        }
    }
}

/// A running cluster. Dropping it removes all links and addresses, once its processes have exited.
#[derive(Debug)]
pub struct Cluster {
    /// Topology of the cluster.
    pub topology: Topology,
    /// Member with the bridge and the address of the router.
    underlay: Member,
    members: BTreeMap<String, Member>,
}

impl Cluster {
    /// Starts a topology. Requires root, on the host or in an enclosure.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the kernel rejects a change.
    pub fn start(topology: Topology) -> Result<Self, ClusterError> {
        let underlay = start_underlay(&topology)?;
        let mut members = BTreeMap::new();
        for (port, plan) in topology.members().enumerate() {
            let member = start_member(&topology, &underlay, plan, port)?;
            members.insert(plan.name.clone(), member);
        }
        Ok(Self {
            topology,
            underlay,
            members,
        })
    }

    /// Returns the member with a name: `control-plane`, `node-1` …, `outside`.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the cluster has no member with this name.
    pub fn member(&self, name: &str) -> Result<&Member, ClusterError> {
        self.members.get(name).ok_or_else(|| ClusterError::NoMember {
            name: name.to_owned(),
            names: self.members.keys().cloned().collect(),
        })
    }

    /// Returns the member of the API server.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the cluster has no such member.
    pub fn control_plane(&self) -> Result<&Member, ClusterError> {
        self.member(&self.topology.control_plane.name)
    }

    /// Returns the client outside of the cluster.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the cluster has no such client.
    pub fn outside(&self) -> Result<&Member, ClusterError> {
        self.member(&self.topology.outside.name)
    }

    /// Returns the nodes in the order of the topology.
    pub fn nodes(&self) -> impl Iterator<Item = &Member> {
        self.topology
            .nodes
            .iter()
            .filter_map(|node| self.members.get(&node.member.name))
    }

    /// Starts `command` in the network namespace of a member.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if the member does not exist or the program cannot be started.
    pub fn spawn(&self, member: &str, command: &mut Command) -> Result<Child, ClusterError> {
        self.member(member)?.spawn(command)
    }

    /// Mounts each member's namespace by name below [`NETNS_DIRECTORY`], for [`crate::enter_enclosure`] and `ip netns`. Only
    /// for use in an enclosure: on the host it would leave traces.
    ///
    /// # Errors
    ///
    /// Returns [`ClusterError`] if a mount fails.
    pub fn publish(&self) -> Result<(), ClusterError> {
        for member in self.members.values() {
            let publish = |source| ClusterError::Publish {
                member: member.plan.name.clone(),
                source,
            };
            let path = format!("{NETNS_DIRECTORY}/{}", member.plan.name);
            fs::create_dir_all(NETNS_DIRECTORY).map_err(publish)?;
            fs::write(&path, "").map_err(publish)?;
            let mounted = member.enter(|| mount_bind("/proc/thread-self/ns/net", path.as_str()));
            mounted?.map_err(|errno| publish(errno.into()))?;
        }
        Ok(())
    }

    /// Returns the member with the bridge, where traffic of the underlay can be observed.
    pub fn underlay(&self) -> &Member {
        &self.underlay
    }
}

fn start_underlay(topology: &Topology) -> Result<Member, ClusterError> {
    let plan = MemberPlan {
        name: "underlay".to_owned(),
        address: topology.router,
    };
    let member = new_member(plan)?;
    let build = || -> Result<(), RouteError> {
        let mut connection = Connection::open_in(&member.namespace)?;
        let bridge: LinkName = BRIDGE.parse()?;
        connection.add_bridge(&bridge)?;
        let link = connection.link_index(&bridge)?;
        connection.change_link(link, &LinkChange::up())?;
        for network in on_underlay(topology, &member.plan) {
            connection.add_address(link, network)?;
        }
        Ok(())
    };
    build().map_err(|source| member.network(source))?;
    Ok(member)
}

fn start_member(
    topology: &Topology,
    underlay: &Member,
    plan: &MemberPlan,
    port: usize,
) -> Result<Member, ClusterError> {
    let member = new_member(plan.clone())?;
    if topology.nodes.iter().any(|node| node.member.name == plan.name) {
        set(&member, NODE_SYSCTLS)?;
    }
    connect_to_bridge(&member, underlay, port).map_err(|source| member.network(source))?;
    let configure = || -> Result<(), RouteError> {
        let mut connection = Connection::open_in(&member.namespace)?;
        let link = connection.link_index(&MEMBER_LINK.parse()?)?;
        for network in on_underlay(topology, plan) {
            connection.add_address(link, network)?;
        }
        for gateway in topology.router.both() {
            connection.add_route(&Route::default_via(gateway))?;
        }
        for (destination, gateway) in topology.routes_of(&plan.name) {
            connection.add_route(&Route::via(destination, gateway))?;
        }
        Ok(())
    };
    configure().map_err(|source| member.network(source))?;
    Ok(member)
}

/// Connects a member's `eth0` with a new port of the bridge.
fn connect_to_bridge(member: &Member, underlay: &Member, port: usize) -> Result<(), RouteError> {
    use std::os::fd::AsFd;
    let mut at_bridge = Connection::open_in(&underlay.namespace)?;
    let near: LinkName = format!("port{port}").parse()?;
    let far: LinkName = MEMBER_LINK.parse()?;
    at_bridge.add_veth(&near, &far, Some(member.namespace.as_fd()))?;
    let bridge = at_bridge.link_index(&BRIDGE.parse()?)?;
    let near_index = at_bridge.link_index(&near)?;
    let change = LinkChange {
        up: Some(true),
        master: Some(Master::Of(bridge)),
        ..LinkChange::default()
    };
    at_bridge.change_link(near_index, &change)?;
    let mut at_member = Connection::open_in(&member.namespace)?;
    let far_index = at_member.link_index(&far)?;
    at_member.change_link(far_index, &LinkChange::up())
}

/// Creates a member with its settings and its loopback link, without connections.
fn new_member(plan: MemberPlan) -> Result<Member, ClusterError> {
    let namespace = NetworkNamespace::create().map_err(|source| ClusterError::Network {
        member: plan.name.clone(),
        source,
    })?;
    let member = Member { plan, namespace };
    set(&member, MEMBER_SYSCTLS)?;
    let loopback_up = || -> Result<(), RouteError> {
        let mut connection = Connection::open_in(&member.namespace)?;
        let loopback = connection.link_index(&"lo".parse()?)?;
        connection.change_link(loopback, &LinkChange::up())
    };
    loopback_up().map_err(|source| member.network(source))?;
    Ok(member)
}

fn set(member: &Member, settings: &[(&'static str, &'static str)]) -> Result<(), ClusterError> {
    member.enter(|| {
        for (name, value) in settings {
            write_sysctl(name, value).map_err(|source| ClusterError::Sysctl {
                member: member.plan.name.clone(),
                name,
                value,
                source,
            })?;
        }
        Ok(())
    })?
}

/// Returns a member's addresses with the prefix length of the underlay.
fn on_underlay(topology: &Topology, plan: &MemberPlan) -> [IpNet; 2] {
    let networks = topology.underlay.both();
    let addresses = plan.address.both();
    [
        IpNet::new(addresses[0], networks[0].prefix_len()).unwrap_or(networks[0]),
        IpNet::new(addresses[1], networks[1].prefix_len()).unwrap_or(networks[1]),
    ]
}

#[cfg(test)]
mod tests;
