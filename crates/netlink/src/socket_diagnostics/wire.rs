//! Encoding of sockets (`linux/inet_diag.h`, `linux/sock_diag.h`).

use std::net::{IpAddr, SocketAddr};

use super::{State, TcpSocket};
use crate::message::{Message, Writer};

/// `SOCK_DIAG_BY_FAMILY`, also the type of the responses.
pub(super) const BY_FAMILY: u16 = 20;
/// `SOCK_DESTROY`.
const DESTROY: u16 = 21;
/// Size of `struct inet_diag_sockid`.
pub(super) const IDENTITY_BYTES: usize = 48;
/// Size of the fields of `struct inet_diag_msg` that precede the identity.
pub(super) const PREFIX_BYTES: usize = 4;
/// All states.
const ALL_STATES: u32 = u32::MAX;

/// IP family of a socket. An IPv6 socket may have IPv4 addresses as `::ffff:…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }
}

/// Writes a list request for the TCP sockets in these states.
pub(super) fn write_list(request: &mut Writer, sequence: u32, family: Family, states: &[State]) {
    let states = states
        .iter()
        .fold(0_u32, |mask, state| mask | 1_u32 << state.number());
    request.begin(BY_FAMILY, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, sequence);
    write_request(request, family.number(), states, &[0; IDENTITY_BYTES]);
}

/// Writes a request to destroy a socket.
pub(super) fn write_destroy(request: &mut Writer, sequence: u32, socket: &TcpSocket) {
    let family = match socket.remote {
        SocketAddr::V4(_) => Family::V4,
        SocketAddr::V6(_) => Family::V6,
    };
    request.begin(DESTROY, libc::NLM_F_REQUEST | libc::NLM_F_ACK, sequence);
    write_request(request, family.number(), ALL_STATES, &identity_bytes(socket));
}

/// Writes a request to destroy the socket without addresses and ports, which does not exist.
pub(super) fn write_destroy_none(request: &mut Writer, sequence: u32) {
    request.begin(DESTROY, libc::NLM_F_REQUEST | libc::NLM_F_ACK, sequence);
    write_request(request, Family::V4.number(), ALL_STATES, &[0; IDENTITY_BYTES]);
}

/// Writes `struct inet_diag_req_v2`.
fn write_request(request: &mut Writer, family: u8, states: u32, identity: &[u8; IDENTITY_BYTES]) {
    let (extensions, padding) = (0, 0);
    let mut bytes = vec![family, libc::IPPROTO_TCP as u8, extensions, padding];
    bytes.extend_from_slice(&states.to_ne_bytes());
    bytes.extend_from_slice(identity);
    request.fixed(&bytes);
}

/// Returns `struct inet_diag_sockid`.
pub(super) fn identity_bytes(socket: &TcpSocket) -> [u8; IDENTITY_BYTES] {
    let [local, remote] = [socket.local, socket.remote].map(|at| address_bytes(at.ip()));
    let parts = socket
        .local
        .port()
        .to_be_bytes()
        .into_iter()
        .chain(socket.remote.port().to_be_bytes())
        .chain(local)
        .chain(remote)
        .chain(socket.link_index.to_ne_bytes())
        // Two words, the lower one first.
        .chain((socket.cookie as u32).to_ne_bytes())
        .chain(((socket.cookie >> 32) as u32).to_ne_bytes());
    let mut bytes = [0; IDENTITY_BYTES];
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    bytes
}

/// Returns the 16 bytes of an address. An IPv4 address is in the first four.
fn address_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Parses a socket (`struct inet_diag_msg`); `None` if the message contains none.
pub(super) fn read(message: &Message<'_>) -> Option<TcpSocket> {
    if message.kind != BY_FAMILY {
        return None;
    }
    let (prefix, rest) = message.payload.split_first_chunk::<PREFIX_BYTES>()?;
    let [family, state, _timer, _retransmissions] = *prefix;
    let (ports, rest) = rest.split_first_chunk::<4>()?;
    let (local, rest) = rest.split_first_chunk::<16>()?;
    let (remote, rest) = rest.split_first_chunk::<16>()?;
    let (link_index, rest) = rest.split_first_chunk::<4>()?;
    let (cookie_low, rest) = rest.split_first_chunk::<4>()?;
    let (cookie_high, _) = rest.split_first_chunk::<4>()?;
    let [l0, l1, r0, r1] = *ports;
    let address = |bytes: &[u8; 16]| -> Option<IpAddr> {
        let [a, b, c, d, ..] = *bytes;
        match i32::from(family) {
            libc::AF_INET => Some([a, b, c, d].into()),
            libc::AF_INET6 => Some((*bytes).into()),
            _ => None,
        }
    };
    let (low, high) = (u32::from_ne_bytes(*cookie_low), u32::from_ne_bytes(*cookie_high));
    Some(TcpSocket {
        local: SocketAddr::new(address(local)?, u16::from_be_bytes([l0, l1])),
        remote: SocketAddr::new(address(remote)?, u16::from_be_bytes([r0, r1])),
        state: State::of_number(state)?,
        link_index: u32::from_ne_bytes(*link_index),
        cookie: u64::from(high) << 32 | u64::from(low),
    })
}
