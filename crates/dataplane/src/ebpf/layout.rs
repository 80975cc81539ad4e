//! Elements of the eBPF maps as bytes. Programs and this process read them, so a change of a layout needs another
//! [`VERSION`].

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use netlink::bpf::{MapKind, MapShape};

use crate::client_sockets::ClientSocket;

/// Version of the layouts, in the path of the pins.
pub(super) const VERSION: u32 = 1;

/// Size of an address with port: IPv6 address (IPv4 as `::ffff:…`), port in network order, six zeros.
pub(super) const SOCKET_BYTES: usize = 24;
/// Offset of the port in an address with port.
pub(super) const PORT_OFFSET: usize = 16;
/// Offset of the counter's number in the value of a frontend, after its [`PackedGeneration`].
pub(super) const COUNTER_OFFSET: usize = 8;
/// Size of the value of a frontend.
pub(super) const FRONTEND_BYTES: usize = 16;
/// Bits of a [`PackedGeneration`] with the number of endpoints.
pub(super) const COUNT_BITS: u32 = 24;
/// Maximum number of endpoints of a group.
pub(super) const ENDPOINTS_MAX: usize = (1 << COUNT_BITS) - 1;
/// Size of a counter: accepted and refused connections.
pub(super) const COUNTER_BYTES: usize = 16;

/// Size of the ring of events, about 2,700 of them.
const EVENT_RING_BYTES: u32 = 256 << 10;
/// Key of the only element of a map.
pub(super) const ONLY_KEY: [u8; 4] = [0; 4];

/// Maximum numbers of elements. They bound the kernel's memory: about 50 MB for empty maps, and 100 to 150 bytes for
/// each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frontends.
    pub frontends: u32,
    /// Endpoints of all groups.
    pub endpoints: u32,
    /// Open connections. Beyond them, `getpeername()` of seldom used ones returns the endpoint.
    pub connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frontends: 131_072,
            endpoints: 1_048_576,
            connections: 262_144,
        }
    }
}

/// Shapes of the maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shapes {
    /// Frontend to [`PackedGeneration`] and counter.
    pub frontends: MapShape,
    /// Generation and index to endpoint.
    pub endpoints: MapShape,
    /// Cookie of a socket to its frontend and endpoint.
    pub connections: MapShape,
    /// Number of a counter to accepted and refused connections.
    pub counters: MapShape,
}

impl Shapes {
    /// Returns the shapes for these limits.
    pub(super) fn new(limits: Limits) -> Self {
        let shape = |name, kind, key_bytes, value_bytes, elements_max| MapShape {
            name,
            kind,
            key_bytes,
            value_bytes,
            elements_max,
        };
        let socket = SOCKET_BYTES as u32;
        let frontend = FRONTEND_BYTES as u32;
        let counter = COUNTER_BYTES as u32;
        Self {
            frontends: shape("frontends", MapKind::Hash, socket, frontend, limits.frontends),
            endpoints: shape("endpoints", MapKind::Hash, 8, socket, limits.endpoints),
            // No program deletes the elements of sockets that the kernel itself owns, so new elements replace old ones.
            connections: shape("connections", MapKind::LruHash, 8, 2 * socket, limits.connections),
            counters: shape("counters", MapKind::PerCpuHash, 4, counter, limits.frontends),
        }
    }
}

/// Shapes of the maps for events. Processes of earlier versions have none, so the maps are not part of [`VERSION`]. A
/// change of the layout of events needs other names.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventShapes {
    /// Ring of events.
    pub events: MapShape,
    /// Time since boot until which events are requested, in nanoseconds.
    pub requests: MapShape,
    /// Number of events for which the ring had no room.
    pub losses: MapShape,
}

impl EventShapes {
    /// The current shapes.
    pub(super) const CURRENT: Self = Self {
        events: MapShape {
            name: "events",
            kind: MapKind::Ring,
            key_bytes: 0,
            value_bytes: 0,
            elements_max: EVENT_RING_BYTES,
        },
        requests: MapShape {
            name: "event_requests",
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: 8,
            elements_max: 1,
        },
        losses: MapShape {
            name: "event_losses",
            kind: MapKind::PerCpuHash,
            key_bytes: 4,
            value_bytes: 8,
            elements_max: 1,
        },
    };
}

/// Generation of a group's endpoints, and their number, in one number that a program reads at once. A generation is
/// never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedGeneration(pub u64);

impl PackedGeneration {
    /// A frontend without endpoints.
    pub(super) const REFUSE: Self = Self(0);

    /// Packs a generation with `count` endpoints, at most [`ENDPOINTS_MAX`].
    pub(super) fn new(generation: u64, count: usize) -> Self {
        Self(generation << COUNT_BITS | (count.min(ENDPOINTS_MAX) as u64))
    }

    /// Returns the generation.
    pub(super) fn generation(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// Returns the number of endpoints.
    pub(super) fn count(self) -> usize {
        (self.0 & ENDPOINTS_MAX as u64) as usize
    }

    /// Returns the key of the endpoint with an index.
    pub(super) fn endpoint_key(self, index: usize) -> [u8; 8] {
        (self.generation() << COUNT_BITS | index as u64).to_ne_bytes()
    }
}

/// Returns the bytes of an address with port.
pub(super) fn socket_bytes(address: SocketAddr) -> [u8; SOCKET_BYTES] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; SOCKET_BYTES];
    let parts = ip.octets().into_iter().chain(address.port().to_be_bytes());
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    bytes
}

/// Reads an address with port.
pub(super) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, rest) = bytes.split_first_chunk::<PORT_OFFSET>()?;
    let (port, _) = rest.split_first_chunk::<2>()?;
    let ip = Ipv6Addr::from(*ip).to_canonical();
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// Reads key and value of a connection.
pub(super) fn client_socket(cookie: &[u8], value: &[u8]) -> Option<ClientSocket> {
    let (frontend, endpoint) = value.split_first_chunk::<SOCKET_BYTES>()?;
    Some(ClientSocket {
        cookie: u64::from_ne_bytes(cookie.try_into().ok()?),
        frontend: socket_address(frontend)?,
        endpoint: socket_address(endpoint)?,
    })
}

/// Returns the value of a frontend.
pub(super) fn frontend_bytes(packed: PackedGeneration, counter: u32) -> [u8; FRONTEND_BYTES] {
    let mut bytes = [0; FRONTEND_BYTES];
    let parts = packed.0.to_ne_bytes().into_iter().chain(counter.to_ne_bytes());
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    bytes
}

/// Reads the value of a frontend.
pub(super) fn frontend_value(bytes: &[u8]) -> Option<(PackedGeneration, u32)> {
    let (packed, rest) = bytes.split_first_chunk::<8>()?;
    let (counter, _) = rest.split_first_chunk::<4>()?;
    Some((
        PackedGeneration(u64::from_ne_bytes(*packed)),
        u32::from_ne_bytes(*counter),
    ))
}
