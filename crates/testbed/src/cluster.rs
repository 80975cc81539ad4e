//! A topology brought to life: namespaces, links, addresses, routes, settings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command};

use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, Master, NetworkNamespace, Route, RouteError};
use rustix::mount::mount_bind;

use crate::sysctl::write_sysctl;
use crate::topology::{MemberPlan, Topology};

/// Where members' namespaces are mounted by name, so that `ip netns exec` finds them inside of an enclosure.
pub const NETNS_DIRECTORY: &str = "/run/netns";

const BRIDGE: &str = "underlay";
/// A member's link to the others.
pub(crate) const MEMBER_LINK: &str = "eth0";

/// Settings of every member: IPv6 addresses usable at once, no routes but ours, no filter on the way back,
/// because answers of a Service may take another way than the question.
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

/// Settings of a node: it forwards, and tells nobody of a shorter way.
const NODE_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.forwarding", "1"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
];

/// Why a cluster did not come up, or a member cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kernel's network refused. `EPERM`: not root in the enclosure.
    #[error("{member}: {source}")]
    Network {
        /// The member it was for.
        member: String,
        /// What failed.
        source: RouteError,
    },
    /// A setting could not be written: no IPv6 in this kernel, or a read-only `/proc/sys`.
    #[error("{member}: setting {name} = {value}: {source}")]
    Sysctl {
        /// The member it was for.
        member: String,
        /// The setting.
        name: &'static str,
        /// Its wanted value.
        value: &'static str,
        /// What failed.
        source: io::Error,
    },
    /// A program did not start.
    #[error("{member}: starting {program}: {source}")]
    Spawn {
        /// The member it was for.
        member: String,
        /// The program.
        program: String,
        /// What failed.
        source: io::Error,
    },
    /// A namespace could not be given a name in the file system.
    #[error("{member}: mounting its namespace: {source}")]
    Publish {
        /// The member it was for.
        member: String,
        /// What failed.
        source: io::Error,
    },
    /// No member has that name.
    #[error("no member is named {name}; there are {}", known.join(", "))]
    NoMember {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

/// A member that is up.
#[derive(Debug)]
pub struct Member {
    /// Its plan.
    pub plan: MemberPlan,
    /// Its network namespace.
    pub namespace: NetworkNamespace,
}

impl Member {
    /// Starts `command` in the member's network namespace.
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

    /// Runs `work` on a thread of its own in the member's namespace.
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

/// A cluster that is up. Dropping it takes all its links and addresses away, once its processes are gone.
#[derive(Debug)]
pub struct Cluster {
    /// The shape.
    pub topology: Topology,
    /// Holds the bridge and the router's address.
    underlay: Member,
    members: BTreeMap<String, Member>,
}

impl Cluster {
    /// Brings a topology to life. To be called inside of an enclosure, or as root.
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

    /// The member of that name: `control-plane`, `node-1` …, `outside`.
    pub fn member(&self, name: &str) -> Result<&Member, ClusterError> {
        self.members.get(name).ok_or_else(|| ClusterError::NoMember {
            name: name.to_owned(),
            known: self.members.keys().cloned().collect(),
        })
    }

    /// The member where the API server belongs.
    pub fn control_plane(&self) -> Result<&Member, ClusterError> {
        self.member(&self.topology.control_plane.name)
    }

    /// The client outside of the cluster.
    pub fn outside(&self) -> Result<&Member, ClusterError> {
        self.member(&self.topology.outside.name)
    }

    /// The nodes, in the topology's order.
    pub fn nodes(&self) -> impl Iterator<Item = &Member> {
        self.topology
            .nodes
            .iter()
            .filter_map(|node| self.members.get(&node.member.name))
    }

    /// Starts `command` in the network namespace of the member of that name.
    pub fn spawn(&self, member: &str, command: &mut Command) -> Result<Child, ClusterError> {
        self.member(member)?.spawn(command)
    }

    /// Mounts every member's namespace by its name below [`NETNS_DIRECTORY`], for [`crate::enter`] and for people
    /// with `ip netns`. Inside of an enclosure only: on the host it would leave traces.
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

    /// The member that holds the bridge: what crosses the underlay can be watched there.
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
    plug_in(&member, underlay, port).map_err(|source| member.network(source))?;
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

/// Joins a member's `eth0` with a new port of the bridge.
fn plug_in(member: &Member, underlay: &Member, port: usize) -> Result<(), RouteError> {
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

/// A member with its settings and its loopback link, joined with nothing yet.
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

/// A member's addresses with the prefix of the underlay.
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
