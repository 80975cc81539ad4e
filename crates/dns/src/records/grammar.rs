//! What a name below the cluster domain asks for (DNS specification, schema 1.1.0).

use crate::wire::Name;

/// Labels in front of the zone in the longest name that can exist:
/// `_port._protocol.service.namespace.svc`.
const LABELS_MAX: usize = 5;

/// What a name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// The zone itself.
    Apex,
    /// `ns.dns`, the zone's name server.
    NameServer,
    /// `dns-version`, which has the schema's version as text.
    Version,
    /// `svc` or `pod`, which exist because names below them do.
    Branch(&'a [u8]),
    /// A namespace, with its length in front, below `svc` or `pod`.
    Namespace(&'a [u8], &'a [u8]),
    /// A Service, or a part of it.
    Service {
        /// Name and namespace of the Service as labels.
        key: &'a [u8],
        /// Where the key begins in the name.
        at: usize,
        /// Which part.
        part: Part<'a>,
    },
    /// A Pod by its address.
    Pod {
        /// The label that spells the address.
        label: &'a [u8],
        /// The namespace, with its length in front.
        namespace: &'a [u8],
    },
    /// Nothing that could exist.
    Nothing,
}

/// A part of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// All of it.
    Whole,
    /// The endpoints of this name.
    Endpoint(&'a [u8]),
    /// A named port. Empty labels match every port: CoreDNS strips underscores, so `_._tcp` is any TCP port.
    Port {
        /// Name of the port.
        name: &'a [u8],
        /// Its protocol.
        protocol: &'a [u8],
    },
}

/// Reads `name`, in lower case, whose zone begins at `zone_at`.
pub(super) fn read(name: &Name, zone_at: usize) -> Asked<'_> {
    let wire = name.as_wire();
    let mut found = [(0, &[][..]); LABELS_MAX];
    let mut count = 0;
    for label in name.labels().take_while(|(at, _)| *at < zone_at) {
        let Some(room) = found.get_mut(count) else {
            return Asked::Nothing;
        };
        *room = label;
        count += 1;
    }
    let labels = found.get(..count).unwrap_or_default();
    match labels {
        [] => Asked::Apex,
        [(_, b"dns-version")] => Asked::Version,
        [(_, b"ns"), (_, b"dns")] => Asked::NameServer,
        [(_, branch @ (b"svc" | b"pod"))] => Asked::Branch(branch),
        [(start, _), (end, branch @ (b"svc" | b"pod"))] => {
            Asked::Namespace(wire.get(*start..*end).unwrap_or_default(), branch)
        }
        [(_, label), (start, _), (end, b"pod")] => Asked::Pod {
            label,
            namespace: wire.get(*start..*end).unwrap_or_default(),
        },
        [part @ .., (start, _), _, (end, b"svc")] => match read_part(part) {
            Some(part) => Asked::Service {
                key: wire.get(*start..*end).unwrap_or_default(),
                at: *start,
                part,
            },
            None => Asked::Nothing,
        },
        _ => Asked::Nothing,
    }
}

fn read_part<'a>(labels: &[(usize, &'a [u8])]) -> Option<Part<'a>> {
    let plain = |label: &'a [u8]| label.strip_prefix(b"_").unwrap_or(label);
    match labels {
        [] => Some(Part::Whole),
        [(_, label)] => Some(Part::Endpoint(label)),
        [(_, name), (_, protocol)] => Some(Part::Port {
            name: plain(name),
            protocol: plain(protocol),
        }),
        _ => None,
    }
}
