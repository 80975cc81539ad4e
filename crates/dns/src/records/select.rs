//! Which parts of a Service a name means.

use std::net::IpAddr;

use super::Index;
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

impl Index {
    /// Calls `read` with what `part` of a Service means to those who ask.
    pub(super) fn with_selection<R>(
        &self,
        key: &[u8],
        part: Part<'_>,
        read: impl FnOnce(Selection<'_>) -> R,
    ) -> R {
        self.with_entry(key, |entry| {
            read(entry.map_or(Selection::Nothing, |entry| self.select(key, entry, part)))
        })
    }

    /// The same of an entry that is at hand.
    pub(super) fn select<'e>(&self, key: &[u8], entry: &'e Entry, part: Part<'e>) -> Selection<'e> {
        let is_hidden = |selection: &Selection<'_>| {
            let may_be_empty = self.settings.ignore_empty_services;
            may_be_empty && matches!(selection, Selection::ClusterIps(..)) && !entry.has_published_endpoint()
        };
        let selection = select(entry, part);
        match self.is_exposed(key) && !is_hidden(&selection) {
            true => selection,
            false => Selection::Nothing,
        }
    }

    /// Whether the namespace of a Service (its key's labels) is one of those that are served.
    pub(super) fn is_exposed(&self, key: &[u8]) -> bool {
        let namespace = || {
            let (length, rest) = key.split_first()?;
            rest.get(usize::from(*length)..)
        };
        !self.settings.only_known_namespaces || namespace().is_some_and(|label| self.has_namespace(label))
    }
}

/// Chooses what `part` means of a Service.
fn select<'e>(entry: &'e Entry, part: Part<'e>) -> Selection<'e> {
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

/// How far from each other answers begin: a prime, so that every endpoint comes first once in as many turns as there
/// are endpoints.
const TURN_STRIDE: usize = 1_610_612_741;

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

    /// The same, beginning with another endpoint for each `turn`, so that clients that take the first answer share
    /// the load, and far from the one before, so that those which a full answer leaves out are in the next.
    pub(super) fn iter_from(
        &self,
        turn: usize,
        count: usize,
    ) -> impl Iterator<Item = (&'e Slice, &'e Endpoint)> {
        let start = turn.wrapping_mul(TURN_STRIDE).checked_rem(count).unwrap_or(0);
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
