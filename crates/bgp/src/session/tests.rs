//! Single sessions: negotiation, errors, collisions, timers and ends.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::connection::negotiate;
use super::{
    Action, ConnectionId, LocalAddresses, Peer, PeerSettings, PeerSystem, SessionError, State, Stop,
};
use crate::message::capability::{Capabilities, GracefulRestart};
use crate::message::{Context, Message, Notification, Open, encode};
use crate::routes::{RouteAttributes, Routes};
use crate::{Family, Time};

const LOCAL_AS: u32 = 64_512;
const PEER_AS: u32 = 64_513;
const CONTEXT: Context = Context {
    has_four_octet_as: true,
    is_internal: false,
    local_as: LOCAL_AS,
};
const LOCAL: LocalAddresses = LocalAddresses {
    ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
    ipv6: None,
    link_local: None,
};

fn settings() -> PeerSettings {
    PeerSettings {
        local_as: LOCAL_AS,
        peer_as: PeerSystem::Number(PEER_AS),
        router_id: Ipv4Addr::new(10, 0, 0, 1),
        hold_seconds: 90,
        keepalive: None,
        connect_retry: Duration::from_secs(120),
        is_passive: false,
        families: Family::ALL.to_vec(),
        restart_seconds: Some(120),
        is_after_boot: false,
    }
}

fn peer_open(identifier: u8) -> Open {
    Open {
        autonomous_system: PEER_AS,
        hold_seconds: 30,
        identifier: Ipv4Addr::new(10, 0, 0, identifier),
        capabilities: Capabilities {
            families: vec![Family::Ipv4],
            four_octet_as: Some(PEER_AS),
            has_route_refresh: true,
            graceful_restart: Some(GracefulRestart {
                has_notifications: true,
                restart_seconds: 120,
                ..GracefulRestart::default()
            }),
            ..Capabilities::default()
        },
    }
}

/// Sent messages and closed connections.
fn taken(peer: &mut Peer) -> (Vec<Message>, Vec<ConnectionId>) {
    let (mut messages, mut closed) = (Vec::new(), Vec::new());
    for action in peer.take_actions() {
        match action {
            Action::Connect(_) => {}
            Action::Send(_, bytes) => {
                messages.push(Message::decode(&bytes, &CONTEXT).expect("a valid message"))
            }
            Action::Close(id) => closed.push(id),
        }
    }
    (messages, closed)
}

fn connect(peer: &mut Peer, now: Time) -> ConnectionId {
    peer.tick(now);
    let actions = peer.take_actions();
    let [Action::Connect(id)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    peer.connected(now, *id, LOCAL);
    *id
}

fn started(settings: PeerSettings) -> Peer {
    let mut peer = Peer::new(settings, 1, Time::ZERO);
    peer.start(Time::ZERO);
    peer
}

fn established(settings: PeerSettings) -> (Peer, ConnectionId) {
    let mut peer = started(settings);
    let id = connect(&mut peer, Time::ZERO);
    peer.received(Time::ZERO, id, &encode::open(&peer_open(2)));
    peer.received(Time::ZERO, id, &encode::keepalive());
    assert_eq!(peer.state(), State::Established);
    peer.take_actions();
    (peer, id)
}

fn notification(messages: &[Message]) -> Option<(u8, u8)> {
    messages.iter().find_map(|message| match message {
        Message::Notification(notification) => Some((notification.code, notification.subcode)),
        _ => None,
    })
}

#[test]
fn opens_with_capabilities_and_announces() {
    let mut peer = started(settings());
    let id = connect(&mut peer, Time::ZERO);
    let (messages, _) = taken(&mut peer);
    let [Message::Open(open)] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    assert_eq!(open.capabilities.families, Family::ALL);
    let restart = open
        .capabilities
        .graceful_restart
        .as_ref()
        .expect("graceful restart");
    assert!(restart.is_restarted && restart.has_notifications);
    // Bytes arrive one by one.
    for byte in encode::open(&peer_open(2)).into_iter().chain(encode::keepalive()) {
        peer.received(Time::ZERO, id, &[byte]);
    }
    let established = peer.established(Time::ZERO).expect("a session");
    assert_eq!(established.families, [Family::Ipv4]);
    assert_eq!(established.hold, Some(Duration::from_secs(30)));
    assert!(established.has_graceful_restart);
    let prefixes = ["192.0.2.10/32", "fd00::1/128"].map(|prefix| prefix.parse().expect("a prefix"));
    let route = Arc::new(RouteAttributes::default());
    peer.set_routes(prefixes.map(|prefix| (prefix, Arc::clone(&route))).into());
    let mut announced = Vec::new();
    let mut ends = Vec::new();
    while let Some((_, bytes)) = peer.next_update(Time::ZERO) {
        let Ok(Message::Update(update)) = Message::decode(&bytes, &CONTEXT) else {
            panic!("an UPDATE")
        };
        announced.extend(update.announced);
        ends.extend(update.end_of_routes);
    }
    // The route of IPv6 has no next hop, and the peer does not support IPv6.
    assert_eq!(announced, &prefixes[..1]);
    assert_eq!(ends, [Family::Ipv4]);
    peer.received(Time::ZERO, id, &encode::route_refresh(Family::Ipv4));
    assert!(peer.next_update(Time::ZERO).is_some());
}

#[test]
fn keepalives_have_a_minimum_period() {
    for (keepalive, expected) in [(0, 1_000), (5_000, 5_000), (60_000, 10_000)] {
        let settings = PeerSettings {
            keepalive: Some(Duration::from_millis(keepalive)),
            ..settings()
        };
        let negotiated = negotiate(&settings, peer_open(2)).expect("a peer of ours");
        assert_eq!(negotiated.keepalive, Some(Duration::from_millis(expected)));
    }
}

#[test]
fn rejects_peers_with_other_families_only() {
    let mut open = peer_open(2);
    open.capabilities.families.clear();
    assert!(negotiate(&settings(), open.clone()).is_ok());
    open.capabilities.has_other_families = true;
    let notification = negotiate(&settings(), open).expect_err("no common family");
    assert_eq!((notification.code, notification.subcode), (2, 7));
}

#[test]
fn rejects_opens_with_unexpected_parameters() {
    let cases: [(fn(&mut Open), (u8, u8)); 3] = [
        (
            |open| {
                open.autonomous_system = 1;
                open.capabilities.four_octet_as = Some(1);
            },
            (2, 2),
        ),
        (|open| open.capabilities.families.clear(), (0, 0)),
        (|open| open.hold_seconds = 1, (2, 6)),
    ];
    for (change, expected) in cases {
        let mut peer = started(settings());
        let id = connect(&mut peer, Time::ZERO);
        let mut open = peer_open(2);
        change(&mut open);
        peer.received(Time::ZERO, id, &encode::open(&open));
        let (messages, closed) = taken(&mut peer);
        if expected == (0, 0) {
            assert_eq!(peer.state(), State::OpenConfirm);
        } else {
            assert_eq!(notification(&messages), Some(expected));
            assert_eq!(closed, [id]);
        }
    }
    let only_ipv6 = PeerSettings {
        families: vec![Family::Ipv6],
        ..settings()
    };
    let mut peer = started(only_ipv6);
    let id = connect(&mut peer, Time::ZERO);
    peer.received(Time::ZERO, id, &encode::open(&peer_open(2)));
    let (messages, _) = taken(&mut peer);
    assert_eq!(notification(&messages), Some((2, 7)));
    // The data are the capability of IPv6.
    let data = messages.iter().find_map(|message| match message {
        Message::Notification(notification) => Some(notification.data.as_slice()),
        _ => None,
    });
    assert_eq!(data, Some(&[1, 4, 0, 2, 0, 1][..]));
}

#[test]
fn ends_sessions_with_the_right_notification() {
    let keepalive = encode::keepalive();
    let mut bad_marker = keepalive.clone();
    bad_marker[3] = 0;
    let update = encode::end_of_routes(Family::Ipv4);
    let cases: [(&[u8], (u8, u8)); 4] = [
        (&bad_marker, (1, 1)),
        (&encode::open(&peer_open(2)), (5, 3)),
        (&[&update[..18], &[9], &update[19..]].concat(), (1, 3)),
        (&[&[0xff; 16][..], &[0xff, 0xff, 2]].concat(), (1, 2)),
    ];
    for (bytes, expected) in cases {
        let (mut peer, id) = established(settings());
        peer.received(Time::ZERO, id, bytes);
        assert_eq!(notification(&taken(&mut peer).0), Some(expected));
        assert_eq!(peer.state(), State::Active);
        assert!(matches!(peer.last_error(), Some(SessionError::Sent(_))));
    }
    let mut peer = started(settings());
    let id = connect(&mut peer, Time::ZERO);
    peer.received(Time::ZERO, id, &keepalive);
    assert_eq!(notification(&taken(&mut peer).0), Some((5, 1)));
}

#[test]
fn hold_timer_ends_the_session_and_keepalives_precede_it() {
    let (mut peer, _) = established(settings());
    let mut keepalives = 0;
    let mut now = Time::ZERO;
    loop {
        now = peer.next_wake().expect("a timer").max(now);
        peer.tick(now);
        let (messages, _) = taken(&mut peer);
        if let Some(expected) = notification(&messages) {
            assert_eq!(expected, (4, 0));
            break;
        }
        keepalives += messages.len();
    }
    assert_eq!(now, Duration::from_secs(30));
    assert!((3..=4).contains(&keepalives), "{keepalives}");
}

#[test]
fn keepalives_are_a_second_apart_with_the_shortest_hold_time() {
    let (mut peer, id) = established(PeerSettings {
        hold_seconds: 3,
        ..settings()
    });
    let mut now = Time::ZERO;
    for _ in 0..50 {
        peer.received(now, id, &encode::keepalive());
        let due = peer.next_wake().expect("a timer");
        assert!(due >= now + Duration::from_secs(1), "{due:?} after {now:?}");
        now = due;
        peer.tick(now);
        assert_eq!(taken(&mut peer).0, [Message::Keepalive]);
    }
}

#[test]
fn hold_time_zero_has_no_timers() {
    let (peer, _) = established(PeerSettings {
        hold_seconds: 0,
        ..settings()
    });
    assert_eq!(peer.next_wake(), None);
}

#[test]
fn higher_identifier_keeps_its_connection() {
    // (identifier of the peer, the connection of this speaker stays)
    for (identifier, keeps_own) in [(0, true), (2, false)] {
        for own_first in [true, false] {
            let mut peer = started(settings());
            let own = connect(&mut peer, Time::ZERO);
            let theirs = peer.accepted(Time::ZERO, LOCAL).expect("accepted");
            let order = if own_first { [own, theirs] } else { [theirs, own] };
            for id in order {
                peer.received(Time::ZERO, id, &encode::open(&peer_open(identifier)));
            }
            let (messages, closed) = taken(&mut peer);
            assert_eq!(notification(&messages), Some((6, 7)));
            assert_eq!(closed, [if keeps_own { theirs } else { own }]);
            peer.received(
                Time::ZERO,
                if keeps_own { own } else { theirs },
                &encode::keepalive(),
            );
            assert_eq!(peer.state(), State::Established);
        }
    }
}

#[test]
fn passive_session_opens_no_connection() {
    let mut peer = started(PeerSettings {
        is_passive: true,
        ..settings()
    });
    assert_eq!(peer.next_wake(), None);
    let id = peer.accepted(Time::ZERO, LOCAL).expect("accepted");
    peer.received(Time::ZERO, id, &encode::open(&peer_open(2)));
    peer.received(Time::ZERO, id, &encode::keepalive());
    assert_eq!(peer.state(), State::Established);
    peer.closed(Time::ZERO, id, "reset");
    assert_eq!(peer.next_wake(), None);
}

#[test]
fn attempts_follow_a_back_off() {
    let mut peer = started(settings());
    let mut now = Time::ZERO;
    let mut delays = Vec::new();
    for _ in 0..12 {
        peer.tick(now);
        let [Action::Connect(id)] = peer.take_actions()[..] else {
            panic!("an attempt")
        };
        peer.closed(now, id, "refused");
        peer.take_actions();
        let due = peer.next_wake().expect("a timer");
        delays.push(due - now);
        now = due;
    }
    assert!(delays[0] <= Duration::from_secs(1));
    assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(120)));
    assert!(delays[11] >= Duration::from_secs(90));
}

#[test]
fn restart_keeps_routes_and_shutdown_does_not() {
    let (mut peer, id) = established(settings());
    peer.stop(&Stop::Restart);
    assert_eq!(taken(&mut peer), (vec![], vec![id]));
    let (mut peer, _) = established(settings());
    peer.stop(&Stop::Shutdown("maintenance".to_owned()));
    let (messages, _) = taken(&mut peer);
    let [Message::Notification(hard)] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    assert_eq!((hard.code, hard.subcode), (6, Notification::HARD_RESET));
    assert_eq!(hard.data[..3], [6, 2, 11]);
    let (mut peer, _) = established(PeerSettings {
        restart_seconds: None,
        ..settings()
    });
    peer.stop(&Stop::Restart);
    assert_eq!(notification(&taken(&mut peer).0), Some((6, 4)));
}

/// Returns true if the OPEN that was sent reports forwarding through the restart.
fn is_preserved(peer: &mut Peer) -> bool {
    let (messages, _) = taken(peer);
    let [Message::Open(open)] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    let restart = open.capabilities.graceful_restart.as_ref();
    let families = &restart.expect("graceful restart").families;
    families.iter().all(|(_, is_preserved)| *is_preserved)
}

#[test]
fn opens_before_the_first_session_after_a_boot_report_lost_forwarding() {
    for is_after_boot in [false, true] {
        let mut peer = started(PeerSettings {
            is_after_boot,
            ..settings()
        });
        let id = connect(&mut peer, Time::ZERO);
        assert_eq!(is_preserved(&mut peer), !is_after_boot);
        peer.received(Time::ZERO, id, &encode::open(&peer_open(2)));
        peer.received(Time::ZERO, id, &encode::keepalive());
        peer.closed(Time::ZERO, id, "reset");
        taken(&mut peer);
        connect(&mut peer, Duration::from_secs(2));
        assert!(is_preserved(&mut peer));
    }
}

#[test]
fn restarted_peer_replaces_its_session() {
    let (mut peer, id) = established(settings());
    let newer = peer.accepted(Time::ZERO, LOCAL).expect("graceful restart");
    assert_eq!(taken(&mut peer).1, [id]);
    peer.received(Time::ZERO, newer, &encode::open(&peer_open(2)));
    assert_eq!(peer.state(), State::OpenConfirm);
}

#[test]
fn flood_of_routes_costs_no_memory() {
    let (mut peer, id) = established(settings());
    let route = RouteAttributes::default();
    let hop = crate::routes::NextHop::Ipv4(Ipv4Addr::new(192, 0, 2, 2));
    let prefix = "10.0.0.0/24".parse().expect("a prefix");
    let (update, _) = encode::announcement(&[prefix], Family::Ipv4, &route, hop, &CONTEXT);
    let flood = update.repeat(1_000);
    peer.received(Time::ZERO, id, &flood);
    assert_eq!(peer.counters().prefixes_received, 1_000);
    assert_eq!(peer.advertised().desired_count(), 0);
    assert_eq!(peer.set_routes(Routes::new()), 0);
    assert_eq!(taken(&mut peer), (vec![], vec![]));
}

#[test]
fn link_local_next_hop_is_alone_without_a_global_address() {
    let address: std::net::Ipv6Addr = "fe80::1".parse().expect("an address");
    let local = LocalAddresses {
        link_local: Some(address),
        ..LocalAddresses::default()
    };
    let expected = Some(crate::routes::NextHop::Ipv6 {
        address,
        link_local: None,
    });
    assert_eq!(local.next_hop(Family::Ipv6, false), expected);
    assert_eq!(local.next_hop(Family::Ipv4, true), expected);
    assert_eq!(local.next_hop(Family::Ipv4, false), None);
}
