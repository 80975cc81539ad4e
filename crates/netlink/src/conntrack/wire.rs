//! Encoding of flows as attributes.

use std::net::{IpAddr, SocketAddr};

use super::{Count, Counters, Direction, Family, Flow, TcpState};
use crate::message::{Attribute, Message, Writer};
use crate::netfilter::GENERIC_BYTES;

/// `NFNL_SUBSYS_CTNETLINK`, in the upper byte of a message's type.
const SUBSYSTEM: u16 = 1 << 8;
/// `IPCTNL_MSG_CT_NEW`, also the event of a begin.
pub(super) const NEW: u16 = SUBSYSTEM;
/// `IPCTNL_MSG_CT_GET`.
const GET: u16 = SUBSYSTEM | 1;
/// `IPCTNL_MSG_CT_DELETE`, also the event of an end.
pub(super) const DELETE: u16 = SUBSYSTEM | 2;

/// `CTA_TUPLE_ORIG` and further values of `enum ctattr_type`.
pub(super) const ORIGINAL: u16 = 1;
pub(super) const REPLY: u16 = 2;
pub(super) const STATUS: u16 = 3;
pub(super) const PROTOCOL_STATE: u16 = 4;
pub(super) const TIMEOUT: u16 = 7;
pub(super) const COUNTERS_ORIGINAL: u16 = 9;
pub(super) const COUNTERS_REPLY: u16 = 10;
const ID: u16 = 12;
const ZONE: u16 = 18;
pub(super) const TIMESTAMP: u16 = 20;
const FILTER: u16 = 25;

/// `IPS_SEEN_REPLY` and `IPS_ASSURED` of `linux/netfilter/nf_conntrack_common.h`.
pub(super) const SEEN_REPLY: u32 = 1 << 1;
pub(super) const ASSURED: u32 = 1 << 2;

/// `CTA_COUNTERS_PACKETS` and `CTA_COUNTERS_BYTES`.
pub(super) const COUNTERS_PACKETS: u16 = 1;
pub(super) const COUNTERS_BYTES: u16 = 2;

/// `CTA_TIMESTAMP_START`.
pub(super) const TIMESTAMP_START: u16 = 1;

/// `CTA_PROTOINFO_TCP` and `CTA_PROTOINFO_TCP_STATE`.
pub(super) const STATE_OF_TCP: u16 = 1;
pub(super) const TCP_STATE: u16 = 1;

/// `enum ctattr_tuple`.
const TUPLE_IP: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;

/// `enum ctattr_ip`.
const V4_SOURCE: u16 = 1;
const V4_DESTINATION: u16 = 2;
const V6_SOURCE: u16 = 3;
const V6_DESTINATION: u16 = 4;

/// `enum ctattr_l4proto`.
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// `enum ctattr_filter`, and the flags that select the destination and the protocol number for comparison.
const FILTER_ORIGINAL: u16 = 1;
const FILTER_REPLY: u16 = 2;
const COMPARE_DESTINATION: u32 = 1 << 1;
const COMPARE_PROTOCOL_NUMBER: u32 = 1 << 3;

/// Writes a list request for the flows of a protocol, to one destination if given. Needs Linux 5.8, which compares
/// both.
pub(super) fn write_list(
    request: &mut Writer,
    sequence: u32,
    family: Family,
    protocol: u8,
    destination: Option<IpAddr>,
) {
    begin(request, GET, libc::NLM_F_DUMP, sequence, family.number());
    let tuple = request.nest(ORIGINAL);
    if let Some(destination) = destination {
        let ip = request.nest(TUPLE_IP);
        write_ip(request, destination, V4_DESTINATION, V6_DESTINATION);
        request.end(ip);
    }
    let protocol_nest = request.nest(TUPLE_PROTOCOL);
    request.attribute(PROTOCOL_NUMBER, &[protocol]);
    request.end(protocol_nest);
    request.end(tuple);
    let filter = request.nest(FILTER);
    let compared = match destination {
        Some(_) => COMPARE_PROTOCOL_NUMBER | COMPARE_DESTINATION,
        None => COMPARE_PROTOCOL_NUMBER,
    };
    request.u32(FILTER_ORIGINAL, compared).u32(FILTER_REPLY, 0);
    request.end(filter);
}

/// Writes a list request for the flows of all protocols and families.
pub(super) fn write_list_of_all(request: &mut Writer, sequence: u32) {
    begin(request, GET, libc::NLM_F_DUMP, sequence, libc::AF_UNSPEC as u8);
}

/// Writes a request for the flow with the same addresses.
pub(super) fn write_get(request: &mut Writer, sequence: u32, flow: &Flow) {
    write_addressed(request, GET, sequence, flow);
}

/// Writes a request for the flow with these addresses of replies.
pub(super) fn write_get_by_reply(request: &mut Writer, sequence: u32, protocol: u8, reply: &Direction) {
    let family = Family::of(reply.source.ip());
    begin(request, GET, libc::NLM_F_ACK, sequence, family.number());
    write_direction(request, REPLY, protocol, reply);
}

/// Writes a request to delete a flow, unless the id shows that another flow has its addresses.
pub(super) fn write_delete(request: &mut Writer, sequence: u32, flow: &Flow) {
    write_addressed(request, DELETE, sequence, flow);
    request.u32_be(ID, flow.id);
}

fn write_addressed(request: &mut Writer, kind: u16, sequence: u32, flow: &Flow) {
    let family = Family::of(flow.original.source.ip());
    begin(request, kind, libc::NLM_F_ACK, sequence, family.number());
    write_direction(request, ORIGINAL, flow.protocol, &flow.original);
    if flow.zone != 0 {
        request.attribute(ZONE, &flow.zone.to_be_bytes());
    }
}

/// Starts a conntrack message.
pub(super) fn begin(request: &mut Writer, kind: u16, flags: i32, sequence: u32, family: u8) {
    let version_and_resource = [0; GENERIC_BYTES - 1];
    let [v, r0, r1] = version_and_resource;
    request
        .begin(kind, flags | libc::NLM_F_REQUEST, sequence)
        .fixed(&[family, v, r0, r1]);
}

/// Writes one direction of a flow.
pub(super) fn write_direction(request: &mut Writer, kind: u16, protocol: u8, direction: &Direction) {
    let tuple = request.nest(kind);
    let ip = request.nest(TUPLE_IP);
    for (address, v4, v6) in [
        (direction.source, V4_SOURCE, V6_SOURCE),
        (direction.destination, V4_DESTINATION, V6_DESTINATION),
    ] {
        write_ip(request, address.ip(), v4, v6);
    }
    request.end(ip);
    let protocol_nest = request.nest(TUPLE_PROTOCOL);
    request
        .attribute(PROTOCOL_NUMBER, &[protocol])
        .attribute(SOURCE_PORT, &direction.source.port().to_be_bytes())
        .attribute(DESTINATION_PORT, &direction.destination.port().to_be_bytes());
    request.end(protocol_nest);
    request.end(tuple);
}

fn write_ip(request: &mut Writer, address: IpAddr, v4: u16, v6: u16) {
    match address {
        IpAddr::V4(address) => request.attribute(v4, &address.octets()),
        IpAddr::V6(address) => request.attribute(v6, &address.octets()),
    };
}

/// Parses a flow; `None` if the message contains no flow with ports.
pub(super) fn read(message: &Message<'_>) -> Option<Flow> {
    let (mut original, mut reply, mut id, mut zone) = (None, None, None, 0);
    let (mut tcp_state, mut expires_in_seconds, mut status) = (None, 0, 0);
    let (mut count_original, mut count_reply, mut began_at_nanoseconds) = (None, None, None);
    for attribute in message.attributes(GENERIC_BYTES) {
        match attribute.kind {
            ORIGINAL => original = read_direction(&attribute),
            REPLY => reply = read_direction(&attribute),
            STATUS => status = attribute.u32_be().unwrap_or_default(),
            PROTOCOL_STATE => tcp_state = read_tcp_state(&attribute),
            TIMEOUT => expires_in_seconds = attribute.u32_be().unwrap_or_default(),
            COUNTERS_ORIGINAL => count_original = read_count(&attribute),
            COUNTERS_REPLY => count_reply = read_count(&attribute),
            ID => id = attribute.u32_be(),
            ZONE => zone = attribute.u16_be()?,
            TIMESTAMP => began_at_nanoseconds = read_number(&attribute, TIMESTAMP_START),
            _ => {}
        }
    }
    let ((protocol, original), (_, reply)) = (original?, reply?);
    let counters = count_original.zip(count_reply);
    Some(Flow {
        protocol,
        original,
        reply,
        counters: counters.map(|(original, reply)| Counters { original, reply }),
        tcp_state,
        expires_in_seconds,
        began_at_nanoseconds,
        is_replied: status & SEEN_REPLY != 0,
        is_assured: status & ASSURED != 0,
        id: id?,
        zone,
    })
}

fn read_tcp_state(of_protocol: &Attribute<'_>) -> Option<TcpState> {
    let tcp_part = of_protocol.nested().find(|part| part.kind == STATE_OF_TCP)?;
    let state = tcp_part.nested().find(|part| part.kind == TCP_STATE)?;
    TcpState::of_number(state.u8()?)
}

fn read_count(counters: &Attribute<'_>) -> Option<Count> {
    Some(Count {
        packets: read_number(counters, COUNTERS_PACKETS)?,
        bytes: read_number(counters, COUNTERS_BYTES)?,
    })
}

/// Returns a nested number of 64 bits.
fn read_number(attribute: &Attribute<'_>, kind: u16) -> Option<u64> {
    let mut parts = attribute.nested();
    parts.find(|part| part.kind == kind)?.u64_be()
}

fn read_direction(tuple: &Attribute<'_>) -> Option<(u8, Direction)> {
    let (mut source, mut destination) = (None, None);
    let (mut protocol, mut source_port, mut destination_port) = (None, None, None);
    for part in tuple.nested() {
        for attribute in part.nested() {
            match (part.kind, attribute.kind) {
                (TUPLE_IP, V4_SOURCE | V6_SOURCE) => source = read_ip(attribute.value),
                (TUPLE_IP, V4_DESTINATION | V6_DESTINATION) => destination = read_ip(attribute.value),
                (TUPLE_PROTOCOL, PROTOCOL_NUMBER) => protocol = attribute.u8(),
                (TUPLE_PROTOCOL, SOURCE_PORT) => source_port = attribute.u16_be(),
                (TUPLE_PROTOCOL, DESTINATION_PORT) => destination_port = attribute.u16_be(),
                _ => {}
            }
        }
    }
    let direction = Direction {
        source: SocketAddr::new(source?, source_port?),
        destination: SocketAddr::new(destination?, destination_port?),
    };
    Some((protocol?, direction))
}

fn read_ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
