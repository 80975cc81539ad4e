//! Which clients come by which links.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Action, Connection, LinkIndex, Route, RouteError};

#[cfg(test)]
mod tests;

/// The machines behind some links, as this machine's routes have it.
#[derive(Debug)]
pub struct Senders {
    /// Routes and the links that they lead to, the longest first; none if they are not known.
    routes: Vec<(IpNet, Option<LinkIndex>)>,
    links: BTreeSet<LinkIndex>,
    /// What was found out.
    known: HashMap<IpAddr, bool>,
}

impl Senders {
    /// Those behind these links by the routes that are in force now; nobody if they cannot be listed.
    pub fn behind(links: &BTreeSet<LinkIndex>) -> Self {
        let routes = listed().unwrap_or_else(|error| {
            tracing::warn!(%error, "connections that broke while their address was elsewhere are not forgotten");
            Vec::new()
        });
        Self::new(&routes, links)
    }

    fn new(routes: &[Route], links: &BTreeSet<LinkIndex>) -> Self {
        let mut routes: Vec<(IpNet, Option<LinkIndex>)> = routes
            .iter()
            .map(|route| (route.destination, link(route.action)))
            .collect();
        routes.sort_by_key(|(destination, _)| std::cmp::Reverse(destination.prefix_len()));
        Self {
            routes,
            links: links.clone(),
            known: HashMap::new(),
        }
    }

    /// Whether a machine with that address is among them.
    pub fn have(&mut self, address: IpAddr) -> bool {
        let Self { routes, links, known } = self;
        *known.entry(address).or_insert_with(|| {
            let route = routes
                .iter()
                .find(|(destination, _)| destination.contains(&address));
            route.is_some_and(|(_, link)| link.is_some_and(|link| links.contains(&link)))
        })
    }
}

fn listed() -> Result<Vec<Route>, RouteError> {
    let mut connection = Connection::open()?;
    let mut routes = connection.routes()?;
    routes.extend(connection.local_routes()?);
    Ok(routes)
}

/// By which link packets leave; none for what stays here.
fn link(action: Action) -> Option<LinkIndex> {
    match action {
        Action::Via { link, .. } => link,
        Action::ViaOnLink { link, .. } | Action::OnLink(link) => Some(link),
        Action::Local(_) | Action::Blackhole | Action::Unreachable => None,
    }
}
