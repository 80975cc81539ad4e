//! Links, routes and neighbours.

use std::collections::HashMap;

use explain::observation::{Link, Neighbour, PodName, Route};
use netlink::route::{self, Connection, LinkIndex};

use super::gap::{Gaps, ReadFailure};
use super::pods::PodNamespace;

/// Maximum number of links.
const LINKS_MAX: usize = 2_000;
/// Maximum number of routes.
const ROUTES_MAX: usize = 20_000;
/// Maximum number of neighbours.
const NEIGHBOURS_MAX: usize = 5_000;

/// Links, routes and neighbours of this network namespace.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// Links with their addresses.
    pub links: Option<Vec<Link>>,
    /// Routes of table `main`.
    pub routes: Option<Vec<Route>>,
    /// Neighbours.
    pub neighbours: Option<Vec<Neighbour>>,
    /// Indexes of the links by name.
    pub indexes: HashMap<String, LinkIndex>,
}

/// Reads the network of this namespace.
pub(super) fn read(gaps: &mut Gaps) -> Network {
    let opened = gaps.take("links", Connection::open().map_err(ReadFailure::from));
    let Some(mut connection) = opened else {
        return Network::default();
    };
    let read = connection
        .links()
        .and_then(|links| Ok((links, connection.addresses()?)));
    let Some((links, addresses)) = gaps.take("links", read.map_err(ReadFailure::from)) else {
        return Network::default();
    };
    let names: HashMap<LinkIndex, String> =
        links.iter().map(|link| (link.index, link.name.clone())).collect();
    let indexes = links.iter().map(|link| (link.name.clone(), link.index)).collect();
    if links.len() > LINKS_MAX {
        gaps.truncate("links");
    }
    let observed = links.iter().take(LINKS_MAX);
    let observed = observed
        .map(|link| observed_link(link, &names, &addresses))
        .collect();
    let routes = connection.listed_routes(ROUTES_MAX).map_err(ReadFailure::from);
    let routes = gaps.take("routes", routes).map(|(routes, has_more)| {
        if has_more {
            gaps.truncate("routes");
        }
        routes.iter().map(|route| observed_route(route, &names)).collect()
    });
    let neighbours = connection.neighbours().map_err(ReadFailure::from);
    let neighbours = gaps.take("neighbours", neighbours).map(|mut neighbours| {
        // Failures are of interest, so they survive the limit.
        neighbours.sort_by_key(|neighbour| !neighbour.is_unanswered());
        if neighbours.len() > NEIGHBOURS_MAX {
            gaps.truncate("neighbours");
        }
        let observed = neighbours
            .iter()
            .filter(|neighbour| !neighbour.address.is_multicast());
        let observed = observed.take(NEIGHBOURS_MAX);
        observed
            .filter_map(|neighbour| observed_neighbour(neighbour, &names))
            .collect()
    });
    Network {
        links: Some(observed),
        routes,
        neighbours,
        indexes,
    }
}

impl Network {
    /// Sets the Pods at the other ends of veth links.
    pub(super) fn set_pods(&mut self, pods: &[PodNamespace]) {
        let mut pod_of_index: HashMap<LinkIndex, &PodName> = HashMap::new();
        for pod in pods {
            let peers = pod.links.iter().filter(|link| link.kind == "veth");
            pod_of_index.extend(peers.filter_map(|link| Some((link.lower?, &pod.pod))));
        }
        for link in self.links.iter_mut().flatten() {
            let index = self.indexes.get(&link.name);
            let is_veth = link.kind.as_deref() == Some("veth");
            let pod = index
                .filter(|_| is_veth)
                .and_then(|index| pod_of_index.get(index));
            link.pod = pod.map(|pod| (*pod).clone());
        }
    }
}

fn observed_link(
    link: &route::Link,
    names: &HashMap<LinkIndex, String>,
    addresses: &[route::Address],
) -> Link {
    let own = addresses.iter().filter(|address| address.link == link.index);
    Link {
        name: link.name.clone(),
        kind: Some(link.kind.clone()).filter(|kind| !kind.is_empty()),
        up: Some(link.is_up),
        mtu: Some(link.mtu_bytes),
        master: link.master.and_then(|master| names.get(&master)).cloned(),
        hairpin: link.is_hairpin,
        promiscuous: Some(link.is_promiscuous),
        addresses: Some(own.map(|address| address.network).collect()),
        pod: None,
    }
}

fn observed_route(route: &route::ListedRoute, names: &HashMap<LinkIndex, String>) -> Route {
    Route {
        destination: route.destination,
        kind: route.kind_name(),
        gateway: route.gateway,
        link: route.link.and_then(|link| names.get(&link)).cloned(),
        metric: route.metric,
        protocol: Some(route.protocol_name()),
    }
}

fn observed_neighbour(neighbour: &route::Neighbour, names: &HashMap<LinkIndex, String>) -> Option<Neighbour> {
    let address = neighbour.ethernet.map(|bytes| {
        let parts = bytes.map(|byte| format!("{byte:02x}"));
        parts.join(":")
    });
    Some(Neighbour {
        address: neighbour.address,
        link: names.get(&neighbour.link)?.clone(),
        state: state_name(neighbour.state).to_owned(),
        link_address: address,
    })
}

/// Returns the name of a state (`NUD_…`).
fn state_name(state: u16) -> &'static str {
    const NAMES: [(u16, &str); 8] = [
        (libc::NUD_PERMANENT, "permanent"),
        (libc::NUD_NOARP, "noarp"),
        (libc::NUD_REACHABLE, "reachable"),
        (libc::NUD_STALE, "stale"),
        (libc::NUD_DELAY, "delay"),
        (libc::NUD_PROBE, "probe"),
        (libc::NUD_FAILED, "failed"),
        (libc::NUD_INCOMPLETE, "incomplete"),
    ];
    let found = NAMES.iter().find(|(bit, _)| state & bit != 0);
    found.map_or("none", |(_, name)| name)
}

#[cfg(test)]
mod tests;
