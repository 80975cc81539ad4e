use std::net::IpAddr;

use crate::message::{Message, Writer, messages};

use super::*;

fn id(address: &str, protocol: i32, port: u16) -> ServerId {
    ServerId {
        address: address.parse().unwrap(),
        protocol: protocol as u8,
        port,
    }
}

fn server(address: &str) -> VirtualServer {
    VirtualServer {
        id: id(address, libc::IPPROTO_TCP, 80),
        scheduler: "mh".to_owned(),
        scheduler_flags: VirtualServer::FALLBACK | VirtualServer::HASH_PORT,
        persistence_seconds: Some(10_800),
    }
}

fn with_message<T>(bytes: &[u8], read: impl Fn(&Message<'_>) -> Option<T>) -> Option<T> {
    let message = messages(bytes).next().expect("a message");
    read(&message)
}

#[cfg(target_endian = "little")]
#[test]
fn encodes_virtual_server_as_ipvsadm_does() {
    let request = wire::request(
        0x23,
        wire::NEW_SERVICE,
        libc::NLM_F_REQUEST | libc::NLM_F_ACK,
        7,
        |writer| {
            wire::write_server(
                writer,
                &VirtualServer {
                    id: id("10.96.0.1", libc::IPPROTO_TCP, 443),
                    scheduler: "rr".to_owned(),
                    scheduler_flags: 0,
                    persistence_seconds: None,
                },
            );
        },
    );
    #[rustfmt::skip]
    let expected = [
        // Header: length, family, REQUEST and ACK, sequence, port; command 1 of version 1.
        104, 0, 0, 0, 0x23, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0,
        // IPVS_CMD_ATTR_SERVICE with AF, PROTOCOL, ADDR, PORT.
        84, 0, 1, 0x80,
        6, 0, 1, 0, 2, 0, 0, 0,
        6, 0, 2, 0, 6, 0, 0, 0,
        20, 0, 3, 0, 10, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        6, 0, 4, 0, 1, 187, 0, 0,
        // SCHED_NAME, FLAGS with mask, TIMEOUT, NETMASK.
        7, 0, 6, 0, b'r', b'r', 0, 0,
        12, 0, 7, 0, 0, 0, 0, 0, 255, 255, 255, 255,
        8, 0, 8, 0, 0, 0, 0, 0,
        8, 0, 9, 0, 255, 255, 255, 255,
    ];
    assert_eq!(request, expected);
}

#[test]
fn reads_back_written_servers_and_destinations() {
    for address in ["10.96.0.1", "fd00::1"] {
        let server = server(address);
        let request = wire::request(0x23, wire::NEW_SERVICE, 0, 1, |writer| {
            wire::write_server(writer, &server);
        });
        assert_eq!(with_message(&request, wire::read_server), Some(server.clone()));
        let to = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 8080);
        let request = wire::request(0x23, wire::NEW_DESTINATION, 0, 1, |writer| {
            wire::write_id(writer, server.id);
            wire::write_destination(writer, to, 1);
        });
        let expected = Destination {
            address: to,
            weight: 1,
            is_translated: true,
            active_connections: 0,
            inactive_connections: 0,
        };
        let read = with_message(&request, |message| wire::read_destination(message, server.id));
        assert_eq!(read, Some(expected));
    }
}

/// KPF-25: `IPVS_CMD_SET_CONFIG` (12) with the attributes of `ipvsadm --set 900 120 300`.
#[cfg(target_endian = "little")]
#[test]
fn encodes_timeouts_as_ipvsadm_does() {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    let request = wire::request(0x23, wire::SET_CONFIG, flags, 7, |writer| {
        wire::write_timeouts(
            writer,
            Timeouts {
                tcp_seconds: 900,
                tcp_fin_seconds: 120,
                udp_seconds: 300,
            },
        );
    });
    #[rustfmt::skip]
    let expected: [u8; 44] = [
        44, 0, 0, 0, 0x23, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, 12, 1, 0, 0,
        // TIMEOUT_TCP, TIMEOUT_TCP_FIN, TIMEOUT_UDP.
        8, 0, 4, 0, 0x84, 3, 0, 0,
        8, 0, 5, 0, 120, 0, 0, 0,
        8, 0, 6, 0, 44, 1, 0, 0,
    ];
    assert_eq!(request, expected);
}

#[test]
fn ignores_servers_by_mark_and_truncated_messages() {
    const FWMARK: u16 = 5;
    let mut writer = Writer::default();
    writer.begin(0x23, 0, 1).fixed(&[wire::NEW_SERVICE, 1, 0, 0]);
    let nest = writer.nest(1);
    writer.u32(FWMARK, 9);
    writer.end(nest);
    let by_mark = writer.finish().to_vec();
    assert_eq!(with_message(&by_mark, wire::read_server), None);

    let whole = wire::request(0x23, wire::NEW_SERVICE, 0, 1, |writer| {
        wire::write_server(writer, &server("fd00::1"));
    });
    for length in 0..whole.len() {
        for message in messages(&whole[..length]) {
            wire::read_server(&message);
        }
    }
}

#[test]
fn identity_names_protocol() {
    assert_eq!(
        id("fd00::1", libc::IPPROTO_SCTP, 80).to_string(),
        "[fd00::1]:80/sctp"
    );
    assert_eq!(
        id("10.0.0.1", libc::IPPROTO_UDP, 53).to_string(),
        "10.0.0.1:53/udp"
    );
}

/// The kernel keeps a virtual server with its destinations until they are deleted.
#[test]
fn kernel_returns_added_servers() {
    testbed::in_namespace(|| {
        let mut ipvs = match Ipvs::open() {
            Err(error @ IpvsError::Missing) => testbed::skip_inside(&error.to_string()),
            opened => opened.unwrap(),
        };
        for (address, to) in [("10.96.0.1", "10.244.1.2:80"), ("fd00::1", "[fd00:244::2]:80")] {
            let server = VirtualServer {
                scheduler: "rr".to_owned(),
                scheduler_flags: 0,
                ..server(address)
            };
            let to: SocketAddr = to.parse().unwrap();
            ipvs.add_server(&server).unwrap();
            assert!(ipvs.add_server(&server).unwrap_err().is_already_present());
            ipvs.add_destination(server.id, to, 1).unwrap();
            ipvs.change_destination(server.id, to, 0).unwrap();
            let found = ipvs.destinations(server.id).unwrap();
            assert_eq!(
                found
                    .iter()
                    .map(|found| (found.address, found.weight))
                    .collect::<Vec<_>>(),
                [(to, 0)]
            );
            let changed = VirtualServer {
                persistence_seconds: None,
                ..server
            };
            ipvs.change_server(&changed).unwrap();
            assert_eq!(ipvs.servers().unwrap(), std::slice::from_ref(&changed));
            ipvs.delete_destination(changed.id, to).unwrap();
            assert!(ipvs.delete_destination(changed.id, to).unwrap_err().is_absent());
            ipvs.delete_server(changed.id).unwrap();
            assert_eq!(ipvs.servers().unwrap(), []);
        }
        ipvs.set_timeouts(Timeouts {
            tcp_seconds: 900,
            tcp_fin_seconds: 120,
            udp_seconds: 300,
        })
        .unwrap();
        ipvs.flush().unwrap();
    });
}
