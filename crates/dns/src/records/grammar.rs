//! Grammar of names below the cluster domain (DNS specification, schema 1.1.0).

use super::ZoneKind;
use crate::wire::Name;

/// Limit of labels below the zone: `_port._protocol.service.namespace.svc`, `hostname.cluster.service.namespace.svc`.
const LABELS_MAX: usize = 5;

/// Object that a query name denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryTarget<'a> {
    /// The zone itself.
    Apex,
    /// `ns.dns`, the zone's name server.
    NameServer,
    /// `dns-version`, whose TXT record is the version of the schema.
    Version,
    /// `svc` or `pod`: empty non-terminals.
    Branch(&'a [u8]),
    /// A namespace with its length prefix, and the branch `svc` or `pod` above it.
    Namespace(&'a [u8], &'a [u8]),
    /// A Service, or a part of it.
    Service {
        /// Name and namespace of the Service as labels.
        key: &'a [u8],
        /// Offset of the key in the name.
        at: usize,
        /// Part of the Service.
        part: Part<'a>,
    },
    /// A Pod by its address.
    Pod {
        /// Label with the address.
        label: &'a [u8],
        /// Namespace with its length prefix.
        namespace: &'a [u8],
    },
    /// A form of name that cannot exist.
    Invalid,
}

/// A part of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The Service itself.
    Whole,
    /// Endpoints with this name.
    Endpoint(&'a [u8]),
    /// Endpoints with this name in a cluster of the set (KEP-1645).
    ClusterEndpoint {
        /// Name of the endpoint.
        label: &'a [u8],
        /// Name of the cluster.
        cluster: &'a [u8],
    },
    /// A named port. Empty labels match every port: CoreDNS strips underscores, so `_._tcp` is any TCP port.
    Port {
        /// Name of the port.
        name: &'a [u8],
        /// Protocol of the port.
        protocol: &'a [u8],
    },
}

/// Parses `name`, which is in lower case and whose zone begins at `zone_at`.
pub(super) fn read(name: &Name, zone_at: usize, zone: ZoneKind) -> QueryTarget<'_> {
    let wire = name.as_wire();
    let mut all = [(0, &[][..]); LABELS_MAX];
    let mut count = 0;
    for label in name.labels().take_while(|(at, _)| *at < zone_at) {
        let Some(slot) = all.get_mut(count) else {
            return QueryTarget::Invalid;
        };
        *slot = label;
        count += 1;
    }
    let labels = all.get(..count).unwrap_or_default();
    match labels {
        [] => QueryTarget::Apex,
        [(_, b"dns-version")] => QueryTarget::Version,
        [(_, b"ns"), (_, b"dns")] => QueryTarget::NameServer,
        [(_, branch @ (b"svc" | b"pod"))] => QueryTarget::Branch(branch),
        [(start, _), (end, branch @ (b"svc" | b"pod"))] => {
            QueryTarget::Namespace(wire.get(*start..*end).unwrap_or_default(), branch)
        }
        // As in CoreDNS, the labels that select a part of a Service are allowed before the address, without effect.
        [part @ .., (_, label), (start, _), (end, b"pod")] => match read_part(part, zone) {
            Some(_) => QueryTarget::Pod {
                label,
                namespace: wire.get(*start..*end).unwrap_or_default(),
            },
            None => QueryTarget::Invalid,
        },
        [part @ .., (start, _), _, (end, b"svc")] => match read_part(part, zone) {
            Some(part) => QueryTarget::Service {
                key: wire.get(*start..*end).unwrap_or_default(),
                at: *start,
                part,
            },
            None => QueryTarget::Invalid,
        },
        _ => QueryTarget::Invalid,
    }
}

fn read_part<'a>(labels: &[(usize, &'a [u8])], zone: ZoneKind) -> Option<Part<'a>> {
    let plain = |label: &'a [u8]| label.strip_prefix(b"_").unwrap_or(label);
    match labels {
        [] => Some(Part::Whole),
        [(_, label)] if zone == ZoneKind::Cluster => Some(Part::Endpoint(label)),
        // No name stands for the endpoints of one cluster.
        [_] => None,
        [(_, label), (_, cluster)] if zone == ZoneKind::ClusterSet && !label.starts_with(b"_") => {
            Some(Part::ClusterEndpoint { label, cluster })
        }
        [(_, name), (_, protocol)] => Some(Part::Port {
            name: plain(name),
            protocol: plain(protocol),
        }),
        _ => None,
    }
}
