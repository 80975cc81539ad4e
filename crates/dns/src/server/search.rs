//! Search list of a Pod, whose names the server tries (DNS-25, KDN-01).
//!
//! With `ndots:5`, a resolver in a Pod queries `a.b.<namespace>.svc.<zone>` first, then `a.b.svc.<zone>`, `a.b.<zone>`,
//! the domains of the host, and finally `a.b`. The server finds the namespace of the Pod by its address. If the first
//! name does not exist, the server tries the others and answers with an alias to the first one that exists. The client
//! sends one query instead of five.

use crate::wire::Name;

/// The domains that follow those of the cluster in the search list of Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchList {
    /// Search list of the host, which Pods inherit.
    host_domains: Vec<Name>,
}

/// A name of the search list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// A name in the zone of the cluster.
    Cluster(Name),
    /// A name outside of it.
    OutsideZone(Name),
}

impl SearchList {
    /// Limit of names outside of the zone per query; each may be a forwarded query.
    pub(super) const NAMES_MAX: usize = 8;

    /// Creates a search list that ends with the domains of the host.
    pub fn new(mut host_domains: Vec<Name>) -> Self {
        // The last candidate is the name itself.
        host_domains.truncate(Self::NAMES_MAX - 1);
        Self { host_domains }
    }

    /// Returns the names that a Pod of `namespace` (a label in wire form) would query after `name`; `None` if
    /// `name` is not the first name of its search list.
    pub(super) fn candidates_after<'l>(
        &'l self,
        name: &Name,
        zone: &'l Name,
        namespace: &[u8],
    ) -> Option<impl Iterator<Item = Candidate> + use<'l>> {
        let mut first = Name::ROOT;
        for part in [namespace, b"\x03svc", zone.as_wire()] {
            first.push_wire(part).ok()?;
        }
        let at = name.to_lower().suffix_offset(&first).filter(|at| *at > 0)?;
        let mut base = Name::ROOT;
        base.push_wire(name.as_wire().get(..at)?).ok()?;
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
            // Resolvers skip names that are too long as well.
            name.push_wire(domain.as_wire()).ok().map(|()| name)
        });
        Some(names.map(|name| {
            if name.to_lower().is_within(zone) {
                Candidate::Cluster(name)
            } else {
                Candidate::OutsideZone(name)
            }
        }))
    }
}

#[cfg(test)]
mod tests;
