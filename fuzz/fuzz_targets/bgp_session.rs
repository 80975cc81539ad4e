//! Sessions with a hostile peer: connections, messages and ends in any order. Memory stays bounded.
#![no_main]

use std::net::Ipv4Addr;
use std::time::Duration;

use bgp::Family;
use bgp::message::MESSAGE_BYTES_MAX;
use bgp::session::{Action, ConnectionId, LocalAddresses, Peer, PeerSettings, PeerSystem};
use libfuzzer_sys::fuzz_target;

const KEEPALIVE: [u8; 3] = [0, 19, 4];
const OPEN: [u8; 13] = [0, 29, 1, 4, 0xfc, 1, 0, 90, 10, 0, 0, 2, 0];

fuzz_target!(|bytes: &[u8]| {
    let local = LocalAddresses {
        ipv4: Some(Ipv4Addr::LOCALHOST),
        ..LocalAddresses::default()
    };
    let settings = PeerSettings {
        local_as: 64_512,
        peer_as: PeerSystem::External,
        router_id: Ipv4Addr::new(10, 0, 0, 1),
        hold_seconds: 90,
        keepalive: None,
        connect_retry: Duration::from_secs(120),
        is_passive: false,
        families: Family::ALL.to_vec(),
        restart_seconds: Some(120),
        is_after_boot: false,
    };
    let mut now = Duration::ZERO;
    let mut peer = Peer::new(settings, 1, now);
    peer.start(now);
    let mut open: Vec<ConnectionId> = Vec::new();
    let mut rest = bytes;
    while let [step, argument, tail @ ..] = rest {
        rest = tail;
        let connection = open.get(usize::from(*argument) % open.len().max(1)).copied();
        match (step % 8, connection) {
            (0, _) => open.extend(peer.accepted(now, local)),
            (1, Some(id)) => peer.closed(now, id, "closed"),
            (2, Some(id)) => peer.received(now, id, &framed(&OPEN)),
            (3, Some(id)) => peer.received(now, id, &framed(&KEEPALIVE)),
            (4 | 5, Some(id)) => {
                let (sent, after) = rest.split_at(rest.len().min(usize::from(*argument)));
                rest = after;
                peer.received(now, id, &framed(sent));
            }
            (6, Some(id)) => peer.received(now, id, &[*argument]),
            _ => now += Duration::from_secs(u64::from(*argument)),
        }
        peer.tick(now);
        for action in peer.take_actions() {
            match action {
                Action::Connect(id) => {
                    peer.connected(now, id, local);
                    open.push(id);
                }
                Action::Send(_, bytes) => assert!(bytes.len() <= MESSAGE_BYTES_MAX),
                Action::Close(id) => open.retain(|other| *other != id),
            }
        }
        assert!(open.len() <= 3);
    }
});

/// Puts a marker before length, type and body.
fn framed(rest: &[u8]) -> Vec<u8> {
    [&[0xff; 16], rest].concat()
}
