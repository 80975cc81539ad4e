//! Decision about the routes of this node for each peer, their communities and local preference.
//!
//! A node announces an address to a peer if an advertisement of the same group selects the pool, the Service, the node
//! and the peer. The node must also be able to serve the connections: with local policy it needs an endpoint of its
//! own. If several advertisements have one prefix, the route has all their communities and the highest local
//! preference. A cordoned node marks its routes first, and withdraws later those that another node announces, too:
//! clients keep a way in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::{Labels, ObjectKey};
use api::selector::LabelSelector;
use bgp::Time;
use bgp::community::{AnyCommunity, Community};
use bgp::routes::{RouteAttributes, Routes};
use ipnet::IpNet;

use super::cluster::{AnnouncedService, Cluster, KnownNode};
use crate::configuration::{Advertisement, Configuration, Group, Name};

/// Drain of a cordoned node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Drain {
    /// The node is not cordoned.
    #[default]
    None,
    /// Routes have the community GRACEFUL_SHUTDOWN.
    Yielding,
    /// Routes that other nodes announce are withdrawn.
    Withdrawn,
}

impl Drain {
    /// Time for routers to move to the routes of other nodes before they are withdrawn.
    pub(crate) const DELAY: Duration = Duration::from_secs(5);

    /// Returns the phase of a node that has been cordoned since `since`.
    pub(crate) fn at(since: Option<Time>, now: Time) -> Self {
        match since {
            None => Self::None,
            Some(since) if now < since + Self::DELAY => Self::Yielding,
            Some(_) => Self::Withdrawn,
        }
    }
}

/// Routes of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeRoutes {
    /// Routes by peer. Peers that do not select this node are missing.
    pub(crate) peers: BTreeMap<Name, Routes>,
    /// UIDs of the Services with announced addresses.
    pub(crate) services: BTreeMap<ObjectKey, String>,
    /// Names of the peers of each of these Services.
    pub(crate) service_peers: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Routes with too many communities, which were left out.
    pub(crate) excess_communities: usize,
}

impl NodeRoutes {
    /// Decides about all routes of a node. `served` are the addresses that the edge of this node serves.
    pub(crate) fn decide(
        cluster: &Cluster,
        configuration: &Configuration,
        node: &str,
        drain: Drain,
        served: &BTreeSet<IpAddr>,
    ) -> Self {
        let mut routes = Self::default();
        let Some(known) = cluster.nodes.get(node) else {
            return routes;
        };
        for (name, peer) in &configuration.peers {
            if matches_any(&peer.nodes, &known.labels) {
                routes.peers.insert(name.clone(), Routes::new());
            }
        }
        if !known.is_eligible {
            return routes;
        }
        let decision = Decision {
            cluster,
            configuration,
            node,
            known,
            drain,
        };
        for (key, service) in &cluster.services {
            for address in &service.addresses {
                if service.needs_edge && !served.contains(address) || cluster.is_node_address(*address) {
                    continue;
                }
                decision.announce(&mut routes, key, service, *address);
            }
        }
        routes
    }
}

/// Inputs of the decision.
struct Decision<'c> {
    cluster: &'c Cluster,
    configuration: &'c Configuration,
    node: &'c str,
    known: &'c KnownNode,
    drain: Drain,
}

impl Decision<'_> {
    /// Adds the routes of an address.
    fn announce(
        &self,
        routes: &mut NodeRoutes,
        key: &ObjectKey,
        service: &AnnouncedService,
        address: IpAddr,
    ) {
        for ((group, _), advertisement) in &self.configuration.advertisements {
            if !self.selects(*group, advertisement, service, address)
                || !self.may_announce(self.node, self.known, advertisement, key, service)
            {
                continue;
            }
            let has_other = self.drain != Drain::None && self.has_other(advertisement, key, service);
            if self.drain == Drain::Withdrawn && has_other {
                continue;
            }
            let Some(prefix) = prefix(address, advertisement) else {
                continue;
            };
            for (name, peer_routes) in &mut routes.peers {
                let is_selected = advertisement.peers.is_empty() || advertisement.peers.contains(&name.1);
                if name.0 != *group || !is_selected {
                    continue;
                }
                let route = Arc::make_mut(peer_routes.entry(prefix).or_default());
                routes.excess_communities += usize::from(!extend(route, advertisement, self.drain));
                routes.services.insert(key.clone(), service.uid.clone());
                let peers = routes.service_peers.entry(key.clone()).or_default();
                peers.insert(name.1.clone());
            }
        }
    }

    fn selects(
        &self,
        group: Group,
        advertisement: &Advertisement,
        service: &AnnouncedService,
        address: IpAddr,
    ) -> bool {
        let is_for_all = advertisement.pool_names.is_empty() && advertisement.pools.is_empty();
        let mut pools = self.cluster.pools(group).filter(|pool| pool.contains(address));
        pools.any(|pool| {
            let is_selected =
                || !advertisement.pools.is_empty() && matches_any(&advertisement.pools, &pool.labels);
            is_for_all || advertisement.pool_names.contains(&pool.name) || is_selected()
        }) && matches_any(&advertisement.services, &service.labels)
    }

    /// Returns true if a node may announce an address of a Service.
    fn may_announce(
        &self,
        name: &str,
        node: &KnownNode,
        advertisement: &Advertisement,
        key: &ObjectKey,
        service: &AnnouncedService,
    ) -> bool {
        let endpoints = self.cluster.endpoint_nodes(key);
        let has_endpoints = if service.is_local {
            endpoints.iter().any(|node| ***node == *name)
        } else {
            // The edge answers clients without a backend itself.
            !endpoints.is_empty() || service.needs_edge
        };
        let matches =
            |selector: &LabelSelector| selector.matches(|key| node.labels.get(key).map(String::as_str));
        has_endpoints
            && node.is_eligible
            && matches_any(&advertisement.nodes, &node.labels)
            && service.nodes.iter().all(matches)
    }

    /// Returns true if another node that is not cordoned announces the address, too.
    fn has_other(&self, advertisement: &Advertisement, key: &ObjectKey, service: &AnnouncedService) -> bool {
        let mut others = self.cluster.nodes.iter();
        others.any(|(name, node)| {
            **name != *self.node
                && !node.is_cordoned
                && self.may_announce(name, node, advertisement, key, service)
        })
    }
}

/// Adds the attributes of an advertisement to a route. Returns false if there are too many communities.
fn extend(route: &mut RouteAttributes, advertisement: &Advertisement, drain: Drain) -> bool {
    route.local_preference = route.local_preference.max(advertisement.local_preference);
    let shutdown = AnyCommunity::Standard(Community::GRACEFUL_SHUTDOWN);
    let shutdown = (drain != Drain::None).then_some(shutdown);
    let mut is_complete = true;
    for community in shutdown
        .into_iter()
        .chain(advertisement.communities.iter().copied())
    {
        is_complete &= route.add(community);
    }
    is_complete
}

/// Returns the announced prefix of an address.
fn prefix(address: IpAddr, advertisement: &Advertisement) -> Option<IpNet> {
    let length = match address {
        IpAddr::V4(_) => advertisement.length4,
        IpAddr::V6(_) => advertisement.length6,
    };
    IpNet::new(address, length).ok().map(|prefix| prefix.trunc())
}

/// Returns true if one of the selectors matches the labels, or if there are no selectors.
fn matches_any(selectors: &[LabelSelector], labels: &Labels) -> bool {
    let matches = |selector: &LabelSelector| selector.matches(|key| labels.get(key).map(String::as_str));
    selectors.is_empty() || selectors.iter().any(matches)
}
