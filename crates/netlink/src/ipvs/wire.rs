//! Encoding of virtual servers as attributes (`linux/ip_vs.h`, `linux/genetlink.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::types::{Destination, ServerId, Timeouts, VirtualServer};
use crate::message::{Attributes, Message, Writer};

/// Size of `struct genlmsghdr` in bytes.
const GENERIC_BYTES: usize = 4;

/// `GENL_ID_CTRL`, its command `CTRL_CMD_GETFAMILY`, and attributes.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const CONTROL_VERSION: u8 = 1;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// `IPVS_GENL_NAME` and `IPVS_GENL_VERSION`.
const NAME: &str = "IPVS";
const VERSION: u8 = 1;

/// `IPVS_CMD_NEW_SERVICE` and further commands.
pub(super) const NEW_SERVICE: u8 = 1;
pub(super) const SET_SERVICE: u8 = 2;
pub(super) const DELETE_SERVICE: u8 = 3;
pub(super) const GET_SERVICE: u8 = 4;
pub(super) const NEW_DESTINATION: u8 = 5;
pub(super) const SET_DESTINATION: u8 = 6;
pub(super) const DELETE_DESTINATION: u8 = 7;
pub(super) const GET_DESTINATION: u8 = 8;
pub(super) const SET_CONFIG: u8 = 12;
pub(super) const FLUSH: u8 = 17;

/// `IPVS_CMD_ATTR_SERVICE` and further attributes of commands.
const SERVICE: u16 = 1;
const DESTINATION: u16 = 2;
const TIMEOUT_TCP: u16 = 4;
const TIMEOUT_TCP_FIN: u16 = 5;
const TIMEOUT_UDP: u16 = 6;

/// `IPVS_SVC_ATTR_AF` and further attributes of a virtual server.
const SERVER_FAMILY: u16 = 1;
const SERVER_PROTOCOL: u16 = 2;
const SERVER_ADDRESS: u16 = 3;
const SERVER_PORT: u16 = 4;
const SERVER_SCHEDULER: u16 = 6;
const SERVER_FLAGS: u16 = 7;
const SERVER_TIMEOUT: u16 = 8;
const SERVER_NETMASK: u16 = 9;

/// `IP_VS_SVC_F_PERSISTENT`.
const PERSISTENT: u32 = 1;

/// `IPVS_DEST_ATTR_ADDR` and further attributes of a destination.
const TO_ADDRESS: u16 = 1;
const TO_PORT: u16 = 2;
const TO_METHOD: u16 = 3;
const TO_WEIGHT: u16 = 4;
const TO_UPPER_THRESHOLD: u16 = 5;
const TO_LOWER_THRESHOLD: u16 = 6;
const TO_ACTIVE: u16 = 7;
const TO_INACTIVE: u16 = 8;
const TO_FAMILY: u16 = 11;

/// `IP_VS_CONN_F_FWD_MASK` and `IP_VS_CONN_F_MASQ`: the forwarding method in the flags.
const METHOD_MASK: u32 = 7;
const METHOD_TRANSLATE: u32 = 0;

/// Size of `union nf_inet_addr` in bytes.
const ADDRESS_BYTES: usize = 16;

/// Builds the request for the number of the family.
pub(super) fn family_request(sequence: u32) -> Vec<u8> {
    let mut writer = Writer::default();
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    writer
        .begin(CONTROL, flags, sequence)
        .fixed(&[GET_FAMILY, CONTROL_VERSION, 0, 0])
        .text(FAMILY_NAME, NAME);
    writer.finish().to_vec()
}

/// Reads the number of the family.
pub(super) fn read_family(message: &Message<'_>) -> Option<u16> {
    let mut attributes = message.attributes(GENERIC_BYTES);
    let id = attributes.find(|attribute| attribute.kind == FAMILY_ID)?;
    read_u16(id.value)
}

/// Builds a request with the attributes that `write` adds.
pub(super) fn request(
    family: u16,
    command: u8,
    flags: libc::c_int,
    sequence: u32,
    write: impl Fn(&mut Writer),
) -> Vec<u8> {
    let mut writer = Writer::default();
    writer
        .begin(family, flags, sequence)
        .fixed(&[command, VERSION, 0, 0]);
    write(&mut writer);
    writer.finish().to_vec()
}

/// Writes the identity of a virtual server.
pub(super) fn write_id(writer: &mut Writer, id: ServerId) {
    let nest = writer.nest(SERVICE);
    write_id_attributes(writer, id);
    writer.end(nest);
}

/// Writes a virtual server. Persistence is per client address.
pub(super) fn write_server(writer: &mut Writer, server: &VirtualServer) {
    let persistent = if server.persistence_seconds.is_some() {
        PERSISTENT
    } else {
        0
    };
    let flags = server.scheduler_flags | persistent;
    let flags_and_mask = [flags.to_ne_bytes(), u32::MAX.to_ne_bytes()].concat();
    // The mask of an IPv6 client is a prefix length.
    let netmask = match server.id.address {
        IpAddr::V4(_) => [u8::MAX; 4],
        IpAddr::V6(_) => Ipv6Addr::BITS.to_ne_bytes(),
    };
    let nest = writer.nest(SERVICE);
    write_id_attributes(writer, server.id);
    writer
        .text(SERVER_SCHEDULER, &server.scheduler)
        .attribute(SERVER_FLAGS, &flags_and_mask)
        .u32(SERVER_TIMEOUT, server.persistence_seconds.unwrap_or(0))
        .attribute(SERVER_NETMASK, &netmask);
    writer.end(nest);
}

fn write_id_attributes(writer: &mut Writer, id: ServerId) {
    writer
        .attribute(SERVER_FAMILY, &family_of(id.address).to_ne_bytes())
        .attribute(SERVER_PROTOCOL, &u16::from(id.protocol).to_ne_bytes())
        .attribute(SERVER_ADDRESS, &address_bytes(id.address))
        .attribute(SERVER_PORT, &id.port.to_be_bytes());
}

/// Writes a destination without limits of its connections.
pub(super) fn write_destination(writer: &mut Writer, address: SocketAddr, weight: u32) {
    let nest = writer.nest(DESTINATION);
    writer
        .attribute(TO_FAMILY, &family_of(address.ip()).to_ne_bytes())
        .attribute(TO_ADDRESS, &address_bytes(address.ip()))
        .attribute(TO_PORT, &address.port().to_be_bytes())
        .u32(TO_METHOD, METHOD_TRANSLATE)
        .u32(TO_WEIGHT, weight)
        .u32(TO_UPPER_THRESHOLD, 0)
        .u32(TO_LOWER_THRESHOLD, 0);
    writer.end(nest);
}

/// Writes the timeouts.
pub(super) fn write_timeouts(writer: &mut Writer, timeouts: Timeouts) {
    writer
        .u32(TIMEOUT_TCP, timeouts.tcp_seconds)
        .u32(TIMEOUT_TCP_FIN, timeouts.tcp_fin_seconds)
        .u32(TIMEOUT_UDP, timeouts.udp_seconds);
}

/// Reads a virtual server; `None` if it matches a packet mark.
pub(super) fn read_server(message: &Message<'_>) -> Option<VirtualServer> {
    let (mut family, mut protocol, mut address, mut port) = (None, None, None, None);
    let (mut scheduler, mut flags, mut timeout) = (String::new(), 0, 0);
    for attribute in nested_attributes(message, SERVICE)? {
        match attribute.kind {
            SERVER_FAMILY => family = read_u16(attribute.value),
            SERVER_PROTOCOL => protocol = read_u16(attribute.value),
            SERVER_ADDRESS => address = Some(attribute.value),
            SERVER_PORT => port = attribute.u16_be(),
            SERVER_SCHEDULER => scheduler = attribute.text()?.to_owned(),
            SERVER_FLAGS => flags = u32::from_ne_bytes(*attribute.value.first_chunk()?),
            SERVER_TIMEOUT => timeout = attribute.u32()?,
            _ => {}
        }
    }
    Some(VirtualServer {
        id: ServerId {
            address: read_address(family?, address?)?,
            protocol: u8::try_from(protocol?).ok()?,
            port: port?,
        },
        scheduler,
        scheduler_flags: flags & VirtualServer::SCHEDULER_FLAGS,
        persistence_seconds: (flags & PERSISTENT != 0).then_some(timeout),
    })
}

/// Reads a destination of a virtual server.
pub(super) fn read_destination(message: &Message<'_>, server: ServerId) -> Option<Destination> {
    let (mut family, mut address, mut port) = (family_of(server.address), None, None);
    let (mut method, mut weight, mut active, mut inactive) = (0, 0, 0, 0);
    for attribute in nested_attributes(message, DESTINATION)? {
        match attribute.kind {
            TO_FAMILY => family = read_u16(attribute.value)?,
            TO_ADDRESS => address = Some(attribute.value),
            TO_PORT => port = attribute.u16_be(),
            TO_METHOD => method = attribute.u32()?,
            TO_WEIGHT => weight = attribute.u32()?,
            TO_ACTIVE => active = attribute.u32()?,
            TO_INACTIVE => inactive = attribute.u32()?,
            _ => {}
        }
    }
    Some(Destination {
        address: SocketAddr::new(read_address(family, address?)?, port?),
        weight,
        is_translated: method & METHOD_MASK == METHOD_TRANSLATE,
        active_connections: active,
        inactive_connections: inactive,
    })
}

fn nested_attributes<'a>(message: &Message<'a>, kind: u16) -> Option<Attributes<'a>> {
    let mut attributes = message.attributes(GENERIC_BYTES);
    let found = attributes.find(|attribute| attribute.kind == kind)?;
    Some(found.nested())
}

fn family_of(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u16,
        IpAddr::V6(_) => libc::AF_INET6 as u16,
    }
}

fn address_bytes(address: IpAddr) -> [u8; ADDRESS_BYTES] {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; ADDRESS_BYTES];
            for (slot, byte) in bytes.iter_mut().zip(v4.octets()) {
                *slot = byte;
            }
            bytes
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn read_address(family: u16, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => bytes.first_chunk::<4>().map(|v4| Ipv4Addr::from(*v4).into()),
        libc::AF_INET6 => bytes
            .first_chunk::<ADDRESS_BYTES>()
            .map(|v6| Ipv6Addr::from(*v6).into()),
        _ => None,
    }
}

fn read_u16(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().ok().map(u16::from_ne_bytes)
}
