//! Selection of the parts of a Service that a name denotes, and the order of its endpoints in a response.
//!
//! A name denotes a whole Service, one of its ports, or an endpoint. A Service with a cluster IP has its cluster IPs at
//! the first two, and endpoints at the last. A headless Service has its endpoints at all of them. If nothing is
//! selected, the name does not exist. Consecutive answers begin with different endpoints, because many clients use the
//! first address only.

use std::net::IpAddr;

use super::Index;
use super::grammar::Part;
use super::service::{Endpoint, Port, ServiceEntry, ServiceKind, Slice};

/// Parts of a Service that a name denotes.
pub(super) enum Selection<'e> {
    /// Nothing: the name does not exist.
    Nothing,
    /// Cluster IPs of the Service, and its ports.
    ClusterIps(&'e [IpAddr], &'e [Port]),
    /// At least one endpoint.
    Endpoints(Endpoints<'e>),
    /// Target of an ExternalName Service, in wire form.
    External(&'e [u8]),
}

impl Index {
    /// Calls `read` with the selected `part` of a Service.
    pub(super) fn with_selection<R>(
        &self,
        key: &[u8],
        part: Part<'_>,
        read: impl FnOnce(Selection<'_>) -> R,
    ) -> R {
        self.with_entry(key, |entry| {
            read(entry.map_or(Selection::Nothing, |entry| self.filter(key, entry, part)))
        })
    }

    /// Selects `part` of an entry, subject to the settings of the index.
    pub(super) fn filter<'e>(&self, key: &[u8], entry: &'e ServiceEntry, part: Part<'e>) -> Selection<'e> {
        let is_hidden = |selection: &Selection<'_>| {
            let may_be_empty = self.settings.ignore_empty_services;
            may_be_empty && matches!(selection, Selection::ClusterIps(..)) && !entry.has_published_endpoint()
        };
        let selection = filter(entry, part);
        if self.is_exposed(key) && !is_hidden(&selection) {
            selection
        } else {
            Selection::Nothing
        }
    }

    /// Returns true if the namespace of a Service is served; `key` holds its labels.
    pub(super) fn is_exposed(&self, key: &[u8]) -> bool {
        let namespace = || {
            let (length, rest) = key.split_first()?;
            rest.get(usize::from(*length)..)
        };
        !self.settings.only_known_namespaces || namespace().is_some_and(|label| self.has_namespace(label))
    }
}

/// Selects `part` of a Service.
fn filter<'e>(entry: &'e ServiceEntry, part: Part<'e>) -> Selection<'e> {
    let Some(data) = &entry.service else {
        return Selection::Nothing;
    };
    match (&data.kind, part) {
        (ServiceKind::External(Some(target)), Part::Whole) => Selection::External(target),
        // An ExternalName Service has neither endpoints nor ports.
        (ServiceKind::External(_), _) => Selection::Nothing,
        (ServiceKind::ClusterIp(addresses), Part::Whole | Part::Port { .. }) => {
            if data.ports.iter().any(|port| part.includes(port)) {
                Selection::ClusterIps(addresses, &data.ports)
            } else {
                Selection::Nothing
            }
        }
        // A clusterset IP has no names of single endpoints.
        (ServiceKind::ClusterIp(_), Part::ClusterEndpoint { .. }) => Selection::Nothing,
        (ServiceKind::Headless, _) | (ServiceKind::ClusterIp(_), Part::Endpoint(_)) => {
            let endpoints = Endpoints {
                entry,
                part,
                with_not_ready: data.publish_not_ready,
            };
            if endpoints.iter().next().is_some() {
                Selection::Endpoints(endpoints)
            } else {
                Selection::Nothing
            }
        }
    }
}

/// Distance between the first endpoints of consecutive answers. The distance is a prime number, so that in N answers
/// for N endpoints each endpoint is first once.
const ROTATION_STRIDE: usize = 1_610_612_741;

/// Endpoints of a Service that a name denotes.
#[derive(Clone, Copy)]
pub(super) struct Endpoints<'e> {
    entry: &'e ServiceEntry,
    part: Part<'e>,
    with_not_ready: bool,
}

impl<'e> Endpoints<'e> {
    /// Returns the endpoints with their slices. An endpoint in several slices appears several times.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'e Slice, &'e Endpoint)> + use<'e> {
        let Self {
            entry,
            part,
            with_not_ready,
        } = *self;
        let slices = entry
            .slices
            .iter()
            .filter(move |slice| slice.ports.iter().any(|port| part.includes(port)));
        slices.flat_map(move |slice| {
            let parts = match part {
                Part::Endpoint(label) => slice.named(label),
                Part::ClusterEndpoint { label, cluster } if slice.is_of_cluster(cluster) => {
                    slice.named(label)
                }
                Part::ClusterEndpoint { .. } => [&[][..], &[]],
                Part::Whole | Part::Port { .. } => [slice.endpoints(), &[]],
            };
            let endpoints = parts.into_iter().flatten();
            endpoints
                .filter(move |endpoint| endpoint.is_published(with_not_ready))
                .map(move |endpoint| (slice, endpoint))
        })
    }

    /// Returns the endpoints in an order that depends on `rotation`. Clients that use the first address share the
    /// load. Consecutive answers start far apart, so that endpoints that a full answer omits are in the next one.
    pub(super) fn iter_rotated(
        &self,
        rotation: usize,
        count: usize,
    ) -> impl Iterator<Item = (&'e Slice, &'e Endpoint)> {
        let start = rotation
            .wrapping_mul(ROTATION_STRIDE)
            .checked_rem(count)
            .unwrap_or(0);
        self.iter().skip(start).chain(self.iter().take(start))
    }
}

impl Part<'_> {
    /// Returns true if the part includes a port.
    pub(super) fn includes(&self, port: &Port) -> bool {
        let Part::Port { name, protocol } = self else {
            return true;
        };
        let text = port.protocol.map_or("", api::object::Protocol::as_str);
        (name.is_empty() || port.name.as_bytes().eq_ignore_ascii_case(name))
            && (protocol.is_empty() || text.as_bytes().eq_ignore_ascii_case(protocol))
    }
}
