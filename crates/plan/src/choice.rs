//! Endpoint choice of a Service port (EPT-01 to EPT-06).
//!
//! A port has two sets of endpoints. The set of the cluster has the ready endpoints that topology hints select, or all
//! ready endpoints if no hints apply. The local set has the ready endpoints of this node, regardless of hints. A set
//! without ready endpoints has those that terminate and still serve (KEP-1669). The module `ports` selects the set of
//! each frontend by the traffic policies of the Service.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api::object::Protocol;

use crate::slice::{EndpointRecord, SliceRecord};
use crate::types::{Backend, Family, ServingNode};

/// A candidate endpoint of a Service port.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: &'a EndpointRecord,
    slice: &'a SliceRecord,
}

impl Candidate<'_> {
    fn backend(&self) -> Backend {
        Backend {
            address: self.address,
            can_be_local: self.endpoint.can_be_local(),
        }
    }

    /// Returns the name of the endpoint's node, if its slice states one. `own` is the name of this node.
    fn node(&self, own: &Arc<str>) -> Option<Arc<str>> {
        if self.endpoint.is_local() {
            Some(own.clone())
        } else {
            self.slice.node_of(self.endpoint).cloned()
        }
    }

    /// Returns true if the endpoint is usable while no endpoint is ready.
    fn is_serving_while_terminating(&self) -> bool {
        self.endpoint.is_serving() && self.endpoint.is_terminating()
    }

    fn is_hinted_for_zone(&self, zone: &str) -> bool {
        self.slice
            .zone_hints(self.endpoint)
            .iter()
            .any(|hint| **hint == *zone)
    }
}

/// Returns the endpoints of one Service port in one family, sorted by address. Of duplicates, the last one that does
/// not terminate counts, or else the first (KPR-15).
pub(crate) fn candidates<'a>(
    slices: impl Iterator<Item = &'a SliceRecord>,
    port: &str,
    protocol: Protocol,
    family: Family,
) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for slice in slices.filter(|slice| slice.family == family) {
        for slice_port in slice.ports_named(port, protocol) {
            found.extend(slice.endpoints.iter().map(|endpoint| Candidate {
                address: SocketAddr::new(endpoint.address, slice_port.number),
                endpoint,
                slice,
            }));
        }
    }
    sort_and_deduplicate(found)
}

/// Returns the number of endpoints of one Service port in one family, including duplicates.
pub(crate) fn candidate_count<'a>(
    slices: impl Iterator<Item = &'a SliceRecord>,
    port: &str,
    protocol: Protocol,
    family: Family,
) -> usize {
    let family_slices = slices.filter(|slice| slice.family == family);
    let counts = family_slices.map(|slice| slice.ports_named(port, protocol).count() * slice.endpoints.len());
    counts.sum()
}

/// Returns the endpoints of all slices in one family, for port ranges; their addresses have port 0. The ports of the
/// slices are irrelevant, because an endpoint gets the port that the client used.
pub(crate) fn range_candidates<'a>(
    slices: impl Iterator<Item = &'a SliceRecord>,
    family: Family,
) -> Vec<Candidate<'a>> {
    let family_slices = slices.filter(|slice| slice.family == family);
    let found = family_slices.flat_map(|slice| {
        slice.endpoints.iter().map(move |endpoint| Candidate {
            address: SocketAddr::new(endpoint.address, 0),
            endpoint,
            slice,
        })
    });
    sort_and_deduplicate(found.collect())
}

/// Sorts candidates and removes duplicates (KPR-15).
fn sort_and_deduplicate(mut found: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    found.sort_by_key(|candidate| candidate.address); // stable: the order of slices stays
    found.dedup_by(|later, kept| {
        let is_same = later.address == kept.address;
        if is_same && !later.endpoint.is_terminating() {
            *kept = *later;
        }
        is_same
    });
    found
}

/// Traffic policies that the frontends of a Service port use.
#[derive(Clone, Copy)]
pub(crate) struct UsedPolicies {
    pub(crate) cluster: bool,
    pub(crate) local: bool,
}

/// Chosen endpoints of a Service port.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChosenEndpoints {
    pub(crate) cluster: Vec<Backend>,
    pub(crate) local: Vec<Backend>,
    /// True if any endpoint of the cluster is usable (EPT-06).
    pub(crate) has_usable_endpoint: bool,
}

/// Chooses among the endpoints of a Service port, for a node in `zone`.
pub(crate) fn choose(
    candidates: &[Candidate<'_>],
    used: UsedPolicies,
    zone: Option<&str>,
) -> ChosenEndpoints {
    let select = |predicate: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<Backend> {
        candidates
            .iter()
            .filter(|candidate| predicate(candidate))
            .map(Candidate::backend)
            .collect()
    };
    let has_usable_endpoint = candidates
        .iter()
        .any(|candidate| candidate.endpoint.is_ready() || candidate.is_serving_while_terminating());
    let mut chosen = ChosenEndpoints {
        has_usable_endpoint,
        ..ChosenEndpoints::default()
    };
    if used.cluster {
        chosen.cluster = match topology(candidates, zone) {
            Topology::Anywhere => select(&|candidate| candidate.endpoint.is_ready()),
            Topology::Node => {
                select(&|candidate| candidate.endpoint.is_ready() && candidate.endpoint.is_hinted_for_node())
            }
            Topology::Zone(zone) => {
                select(&|candidate| candidate.endpoint.is_ready() && candidate.is_hinted_for_zone(zone))
            }
        };
        if chosen.cluster.is_empty() {
            chosen.cluster = select(&|candidate| candidate.is_serving_while_terminating());
        }
    }
    if used.local {
        chosen.local = select(&|candidate| candidate.endpoint.is_local() && candidate.endpoint.is_ready());
        if chosen.local.is_empty() {
            chosen.local = select(&|candidate| {
                candidate.endpoint.is_local() && candidate.is_serving_while_terminating()
            });
        }
    }
    chosen
}

/// Counts the usable endpoints of each node. Hints are irrelevant: a client outside of the cluster has no zone. An
/// endpoint without a node is not counted. A node whose endpoints only serve open connections has 0.
pub(crate) fn serving_nodes(candidates: &[Candidate<'_>], own_name: &str) -> Vec<ServingNode> {
    let own: Arc<str> = own_name.into();
    let is_any_ready = candidates
        .iter()
        .any(|candidate| candidate.endpoint.is_ready() && candidate.node(&own).is_some());
    let mut nodes: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for candidate in candidates {
        let endpoint = candidate.endpoint;
        if !endpoint.is_ready() && !endpoint.is_serving() {
            continue;
        }
        let Some(node) = candidate.node(&own) else {
            continue;
        };
        let is_usable = if is_any_ready {
            endpoint.is_ready()
        } else {
            candidate.is_serving_while_terminating()
        };
        *nodes.entry(node).or_default() += u32::from(is_usable);
    }
    nodes
        .into_iter()
        .map(|(name, endpoints)| ServingNode { name, endpoints })
        .collect()
}

/// Topology hints that restrict the endpoints.
enum Topology<'a> {
    Anywhere,
    Node,
    Zone(&'a str),
}

/// Returns the most specific kind of hint that every ready endpoint has, and that selects at least one endpoint
/// (EPT-04).
fn topology<'a>(candidates: &[Candidate<'_>], zone: Option<&'a str>) -> Topology<'a> {
    let ready = || {
        candidates
            .iter()
            .filter(|candidate| candidate.endpoint.is_ready())
    };
    if ready().all(|candidate| candidate.endpoint.has_node_hints())
        && ready().any(|candidate| candidate.endpoint.is_hinted_for_node())
    {
        return Topology::Node;
    }
    match zone {
        Some(zone)
            if ready().all(|candidate| !candidate.slice.zone_hints(candidate.endpoint).is_empty())
                && ready().any(|candidate| candidate.is_hinted_for_zone(zone)) =>
        {
            Topology::Zone(zone)
        }
        _ => Topology::Anywhere,
    }
}
