//! Which parts of a Service a name means.

use std::net::IpAddr;

use super::grammar::Part;
use super::service::{Endpoint, Entry, FactsKind, Port, Slice};

/// What a name below a Service means.
pub(super) enum Selection<'e> {
    /// Nothing that exists.
    Nothing,
    /// The Service's cluster IPs, and those of its ports that are meant.
    ClusterIps(&'e [IpAddr], &'e [Port]),
    /// Endpoints, at least one.
    Endpoints(Endpoints<'e>),
    /// Another name, in wire form.
    External(&'e [u8]),
}

/// Chooses what `part` means of a Service.
pub(super) fn select<'e>(entry: &'e Entry, part: Part<'e>) -> Selection<'e> {
    let Some(facts) = &entry.service else {
        return Selection::Nothing;
    };
    match (&facts.kind, part) {
        (FactsKind::External(Some(target)), Part::Whole) => Selection::External(target),
        // An ExternalName has neither endpoints nor ports.
        (FactsKind::External(_), _) => Selection::Nothing,
        (FactsKind::ClusterIp(addresses), Part::Whole | Part::Port { .. }) => {
            if facts.ports.iter().any(|port| part.admits(port)) {
                Selection::ClusterIps(addresses, &facts.ports)
            } else {
                Selection::Nothing
            }
        }
        (FactsKind::Headless, _) | (FactsKind::ClusterIp(_), Part::Endpoint(_)) => {
            let endpoints = Endpoints {
                entry,
                part,
                with_not_ready: facts.publish_not_ready,
            };
            if endpoints.iter().next().is_some() {
                Selection::Endpoints(endpoints)
            } else {
                Selection::Nothing
            }
        }
    }
}

/// Endpoints of a Service that a name means.
#[derive(Clone, Copy)]
pub(super) struct Endpoints<'e> {
    entry: &'e Entry,
    part: Part<'e>,
    with_not_ready: bool,
}

impl<'e> Endpoints<'e> {
    /// The endpoints with their slices. One that several slices have comes several times.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'e Slice, &'e Endpoint)> + use<'e> {
        let Self {
            entry,
            part,
            with_not_ready,
        } = *self;
        let slices = entry
            .slices
            .iter()
            .filter(move |slice| slice.ports.iter().any(|port| part.admits(port)));
        slices.flat_map(move |slice| {
            let parts = match part {
                Part::Endpoint(label) => slice.named(label),
                Part::Whole | Part::Port { .. } => [slice.endpoints(), &[]],
            };
            let endpoints = parts.into_iter().flatten();
            endpoints
                .filter(move |endpoint| endpoint.is_published(with_not_ready))
                .map(move |e| (slice, e))
        })
    }

    /// The same, beginning with another endpoint for each `turn`, so that clients that take the first
    /// answer share the load.
    pub(super) fn iter_from(
        &self,
        turn: usize,
        count: usize,
    ) -> impl Iterator<Item = (&'e Slice, &'e Endpoint)> {
        let start = turn.checked_rem(count).unwrap_or(0);
        self.iter().skip(start).chain(self.iter().take(start))
    }
}

impl Part<'_> {
    /// Whether a port is meant.
    pub(super) fn admits(&self, port: &Port) -> bool {
        let Part::Port { name, protocol } = self else {
            return true;
        };
        let spelled = port.protocol.map_or("", api::object::Protocol::as_str);
        (name.is_empty() || port.name.as_bytes().eq_ignore_ascii_case(name))
            && (protocol.is_empty() || spelled.as_bytes().eq_ignore_ascii_case(protocol))
    }
}
