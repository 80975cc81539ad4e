//! Clients behind links, by this node's routes.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Action, Connection, LinkIndex, Route, RouteError};

#[cfg(test)]
mod tests;

/// Clients that are reached through some links.
#[derive(Debug)]
pub(crate) struct LinkClients {
    /// Routes and their outgoing links, longest prefix first.
    routes: Vec<(IpNet, Option<LinkIndex>)>,
    links: BTreeSet<LinkIndex>,
    /// Earlier results.
    cache: HashMap<IpAddr, bool>,
}

impl LinkClients {
    /// Reads the current routes. If that fails, no client is behind the links.
    pub(crate) fn new(links: &BTreeSet<LinkIndex>) -> Self {
        let routes = list_routes().unwrap_or_else(|error| {
            tracing::warn!(%error, "routes not listed; open connections are not flushed");
            Vec::new()
        });
        Self::with_routes(&routes, links)
    }

    fn with_routes(routes: &[Route], links: &BTreeSet<LinkIndex>) -> Self {
        let mut routes: Vec<(IpNet, Option<LinkIndex>)> = routes
            .iter()
            .map(|route| (route.destination, link(route.action)))
            .collect();
        routes.sort_by_key(|(destination, _)| std::cmp::Reverse(destination.prefix_len()));
        Self {
            routes,
            links: links.clone(),
            cache: HashMap::new(),
        }
    }

    /// Returns true if a client is behind the links.
    pub(crate) fn contain(&mut self, address: IpAddr) -> bool {
        let Self { routes, links, cache } = self;
        *cache.entry(address).or_insert_with(|| {
            let route = routes
                .iter()
                .find(|(destination, _)| destination.contains(&address));
            route.is_some_and(|(_, link)| link.is_some_and(|link| links.contains(&link)))
        })
    }
}

fn list_routes() -> Result<Vec<Route>, RouteError> {
    let mut connection = Connection::open()?;
    let mut routes = connection.routes()?;
    routes.extend(connection.local_routes()?);
    Ok(routes)
}

/// Returns the outgoing link of a route; `None` for local and unreachable destinations.
fn link(action: Action) -> Option<LinkIndex> {
    match action {
        Action::Via { link, .. } => link,
        Action::ViaOnLink { link, .. } | Action::OnLink(link) => Some(link),
        Action::Local(_) | Action::Blackhole | Action::Unreachable => None,
    }
}
