//! The search list of a Pod, walked by the server (DNS-25, KDN-01).
//!
//! With `ndots:5`, a resolver in a Pod asks for `a.b.<namespace>.svc.<zone>` first, then for `a.b.svc.<zone>`,
//! `a.b.<zone>`, the machine's domains, and at last for `a.b`. The server knows the Pod's namespace by its
//! address, so when the first of them does not exist it goes on by itself and answers with an alias to what it
//! found: one question in the place of five.

use crate::wire::Name;

/// What follows the cluster's part of Pods' search lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchList {
    /// Domains of the machine's own search list, which Pods get too.
    host_domains: Vec<Name>,
}

/// A name on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// One in the cluster's zone.
    Cluster(Name),
    /// Another one.
    Elsewhere(Name),
}

impl SearchList {
    /// Names outside of the zone that are tried for one query: each may be a question upstream.
    pub(super) const NAMES_MAX: usize = 8;

    /// A list that ends with these domains of the machine's.
    pub fn new(mut host_domains: Vec<Name>) -> Self {
        // The name itself comes last.
        host_domains.truncate(Self::NAMES_MAX - 1);
        Self { host_domains }
    }

    /// The names that a Pod of `namespace` (a label in wire form) would ask for after `asked`; nothing if
    /// `asked` is not the first one of its list.
    pub(super) fn walk<'l>(
        &'l self,
        asked: &Name,
        zone: &'l Name,
        namespace: &[u8],
    ) -> Option<impl Iterator<Item = Candidate> + use<'l>> {
        let mut first = Name::ROOT;
        for part in [namespace, b"\x03svc", zone.as_wire()] {
            first.push_wire(part).ok()?;
        }
        let at = asked.to_lower().suffix_offset(&first).filter(|at| *at > 0)?;
        let mut base = Name::ROOT;
        base.push_wire(asked.as_wire().get(..at)?).ok()?;
        let mut services = Name::ROOT;
        services
            .push_wire(b"\x03svc")
            .and_then(|()| services.push_wire(zone.as_wire()))
            .ok()?;
        let domains = [services, *zone]
            .into_iter()
            .chain(self.host_domains.iter().copied());
        let names = domains.chain([Name::ROOT]).filter_map(move |domain| {
            let mut name = base;
            // A name that would be too long is none; resolvers leave it out as well.
            name.push_wire(domain.as_wire()).ok().map(|()| name)
        });
        Some(names.map(|name| match name.to_lower().is_within(zone) {
            true => Candidate::Cluster(name),
            false => Candidate::Elsewhere(name),
        }))
    }
}

#[cfg(test)]
mod tests;
