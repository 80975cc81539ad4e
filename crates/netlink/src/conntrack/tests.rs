use proptest::prelude::*;

use super::wire::{
    ASSURED, COUNTERS_BYTES, COUNTERS_ORIGINAL, COUNTERS_PACKETS, COUNTERS_REPLY, NEW, ORIGINAL,
    PROTOCOL_STATE, REPLY, SEEN_REPLY, STATE_OF_TCP, STATUS, TCP_STATE, TIMEOUT, TIMESTAMP, TIMESTAMP_START,
    begin, read, write_delete, write_direction,
};
use super::*;
use crate::message::messages;

/// `IPS_CONFIRMED`, which the kernel requires of new entries with a status.
const CONFIRMED: u32 = 1 << 3;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// Returns a flow from `client` to `frontend` with replies from `endpoint`.
fn flow(client: &str, frontend: &str, endpoint: &str) -> Flow {
    Flow {
        protocol: UDP,
        original: Direction {
            source: at(client),
            destination: at(frontend),
        },
        reply: Direction {
            source: at(endpoint),
            destination: at(client),
        },
        counters: None,
        tcp_state: None,
        expires_in_seconds: 0,
        began_at_nanoseconds: None,
        is_replied: false,
        is_assured: false,
        id: 7,
        zone: 0,
    }
}

/// Returns a TCP flow in a state.
fn connection(client: &str, frontend: &str, endpoint: &str, state: TcpState) -> Flow {
    Flow {
        protocol: TCP,
        tcp_state: Some(state),
        is_replied: true,
        expires_in_seconds: 600,
        ..flow(client, frontend, endpoint)
    }
}

/// Returns the kernel's number of a state.
fn number(state: TcpState) -> u8 {
    let number = (0..=u8::MAX).find(|number| TcpState::of_number(*number) == Some(state));
    number.expect("a number")
}

/// Writes the attributes of a flow besides its addresses.
fn write_rest(request: &mut Writer, flow: &Flow) {
    request.u32_be(TIMEOUT, flow.expires_in_seconds.max(600));
    if flow.is_replied {
        request.u32_be(STATUS, CONFIRMED | SEEN_REPLY);
    }
    if let Some(state) = flow.tcp_state {
        let of_protocol = request.nest(PROTOCOL_STATE);
        let of_tcp = request.nest(STATE_OF_TCP);
        request.attribute(TCP_STATE, &[number(state)]);
        request.end(of_tcp);
        request.end(of_protocol);
    }
}

/// Writes counters and the timestamp, as the kernel does.
fn write_counters(request: &mut Writer, flow: &Flow) {
    let counters = flow.counters.unwrap_or_default();
    for (kind, count) in [
        (COUNTERS_ORIGINAL, counters.original),
        (COUNTERS_REPLY, counters.reply),
    ] {
        let nest = request.nest(kind);
        request
            .attribute(COUNTERS_PACKETS, &count.packets.to_be_bytes())
            .attribute(COUNTERS_BYTES, &count.bytes.to_be_bytes());
        request.end(nest);
    }
    let nest = request.nest(TIMESTAMP);
    let began_at = flow.began_at_nanoseconds.unwrap_or_default();
    request.attribute(TIMESTAMP_START, &began_at.to_be_bytes());
    request.end(nest);
}

/// Creates a conntrack entry.
fn create(conntrack: &mut Conntrack, flow: &Flow) {
    let sequence = conntrack.socket.next_sequence();
    let family = Family::of(flow.original.source.ip());
    let mut request = Writer::default();
    begin(
        &mut request,
        NEW,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK,
        sequence,
        family.number(),
    );
    write_direction(&mut request, ORIGINAL, flow.protocol, &flow.original);
    write_direction(&mut request, REPLY, flow.protocol, &flow.reply);
    write_rest(&mut request, flow);
    conntrack
        .socket
        .exchange(request.finish(), sequence, |_| {})
        .expect("the kernel takes a flow");
}

fn answered_by(flows: &[Flow]) -> Vec<String> {
    let mut texts: Vec<String> = flows.iter().map(|flow| flow.reply.source.to_string()).collect();
    texts.sort();
    texts
}

#[test]
fn written_flows_read_back() {
    for flow in [
        flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353"),
        flow("[fd00::3]:4000", "[fd00:10:96::a]:53", "[fd00::2]:5353"),
    ] {
        let mut request = Writer::default();
        write_delete(&mut request, 1, &flow);
        write_direction(&mut request, REPLY, UDP, &flow.reply);
        let read: Vec<Option<Flow>> = messages(request.finish()).map(|message| read(&message)).collect();
        assert_eq!(read, [Some(flow)]);
    }
    for state in (1..=9).filter_map(TcpState::of_number) {
        let flow = connection("10.244.1.3:4000", "10.96.0.10:80", "10.244.2.2:8080", state);
        let mut request = Writer::default();
        write_delete(&mut request, 1, &flow);
        write_direction(&mut request, REPLY, TCP, &flow.reply);
        write_rest(&mut request, &flow);
        let read: Vec<Option<Flow>> = messages(request.finish()).map(|message| read(&message)).collect();
        assert_eq!(read, [Some(flow)]);
    }
    for (status, is_replied, is_assured) in [(SEEN_REPLY, true, false), (SEEN_REPLY | ASSURED, true, true)] {
        let flow = Flow {
            is_replied,
            is_assured,
            ..flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353")
        };
        let mut request = Writer::default();
        write_delete(&mut request, 1, &flow);
        write_direction(&mut request, REPLY, UDP, &flow.reply);
        request.u32_be(STATUS, status);
        assert_eq!(
            messages(request.finish()).find_map(|message| read(&message)),
            Some(flow)
        );
    }
    let counted = Flow {
        counters: Some(Counters {
            original: Count {
                packets: 3,
                bytes: 180,
            },
            reply: Count {
                packets: 2,
                bytes: u64::MAX,
            },
        }),
        began_at_nanoseconds: Some(1_800_000_000_000_000_001),
        ..flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353")
    };
    let mut request = Writer::default();
    write_delete(&mut request, 1, &counted);
    write_direction(&mut request, REPLY, UDP, &counted.reply);
    write_counters(&mut request, &counted);
    let read_back = messages(request.finish()).find_map(|message| read(&message));
    assert_eq!(read_back, Some(counted));
    assert_eq!(counted.bytes(), u64::MAX, "the sum does not overflow");
    assert_eq!(TcpState::of_number(0), None, "a connection without a state");
    assert_eq!(TcpState::of_number(200), None);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for message in messages(&bytes) {
            read(&message);
        }
    }

    #[test]
    fn damaged_flow_never_panics(place in 0usize..200, byte in any::<u8>()) {
        let flow = connection("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353", TcpState::TimeWait);
        let mut request = Writer::default();
        write_delete(&mut request, 1, &flow);
        write_rest(&mut request, &flow);
        let mut bytes = request.finish().to_vec();
        let index = place % bytes.len();
        bytes[index] = byte;
        for message in messages(&bytes) {
            read(&message);
        }
    }
}

#[test]
fn deleted_conntrack_entries_are_gone() {
    testbed::in_namespace(|| {
        let mut conntrack = Conntrack::open().expect("a socket");
        let dns = [
            flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353"),
            flow("10.244.1.3:4001", "10.96.0.10:53", "10.244.2.3:5353"),
            flow("[fd00::3]:4000", "[fd00:10:96::a]:53", "[fd00::2]:5353"),
        ];
        dns.iter().for_each(|flow| create(&mut conntrack, flow));

        let of_v4 = conntrack.flows(Family::V4, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&of_v4), ["10.244.2.2:5353", "10.244.2.3:5353"]);
        let of_v6 = conntrack.flows(Family::V6, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&of_v6), ["[fd00::2]:5353"]);
        assert_eq!(conntrack.flows(Family::V4, TCP, |_| true).expect("a list"), []);

        let stale = conntrack.flows(Family::V4, UDP, |flow| {
            flow.reply.source.port() == 5353 && flow.original.source.port() == 4000
        });
        let stale = stale.expect("a list");
        assert_eq!(answered_by(&stale), ["10.244.2.2:5353"]);
        let now = conntrack.current(&stale[0]).expect("a lookup");
        assert_eq!(now.map(|flow| flow.original), Some(stale[0].original));
        assert!(conntrack.delete(&stale[0]).expect("a deleted entry"));
        assert_eq!(conntrack.current(&stale[0]).expect("a lookup"), None);
        assert!(!conntrack.delete(&stale[0]).expect("a missing entry"));
        let left = conntrack.flows(Family::V4, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&left), ["10.244.2.3:5353"]);
    });
}

#[test]
fn finds_original_destinations() {
    testbed::in_namespace(|| {
        let mut conntrack = Conntrack::open().expect("a socket");
        let [client, dns, endpoint] = ["10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353"];
        create(&mut conntrack, &flow(client, dns, endpoint));
        create(
            &mut conntrack,
            &flow("[fd00::3]:4000", "[fd00:10:96::a]:53", "[fd00::2]:5353"),
        );
        let mut find = |client: &str, here: &str| {
            conntrack
                .original_destination(UDP, at(client), at(here))
                .expect("a lookup")
        };
        assert_eq!(
            find("[fd00::3]:4000", "[fd00::2]:5353"),
            Some(at("[fd00:10:96::a]:53"))
        );
        assert_eq!(find(client, endpoint), Some(at(dns)));
        assert_eq!(find("10.244.1.4:4000", endpoint), None, "no flow");
        assert_eq!(find(dns, client), None, "the flow began here");
    });
}

#[test]
fn lists_tcp_states_of_connections_to_address() {
    testbed::in_namespace(|| {
        let mut conntrack = Conntrack::open().expect("a socket");
        for connection in [
            connection(
                "192.0.2.9:4000",
                "192.0.2.200:80",
                "10.244.2.2:1",
                TcpState::TimeWait,
            ),
            connection(
                "192.0.2.9:4001",
                "192.0.2.200:80",
                "10.244.2.2:2",
                TcpState::Established,
            ),
            connection(
                "192.0.2.9:4000",
                "192.0.2.201:80",
                "10.244.2.2:3",
                TcpState::Close,
            ),
            connection(
                "[fd00::9]:4000",
                "[fd00::200]:80",
                "[fd00::2]:4",
                TcpState::FinWait,
            ),
            connection(
                "[fd00::9]:4000",
                "[fd00::201]:80",
                "[fd00::2]:5",
                TcpState::TimeWait,
            ),
        ] {
            create(&mut conntrack, &connection);
        }
        let dns = flow("192.0.2.9:4000", "192.0.2.200:53", "10.244.2.2:5353");
        create(&mut conntrack, &dns);
        let mut found = |address: &str| {
            let address = address.parse().expect("an address");
            let mut found = conntrack
                .flows_to(usize::MAX, address, TCP, |_| true)
                .expect("a list");
            found.sort_by_key(|flow| flow.reply.source.port());
            let observed = found.iter().map(|flow| {
                assert!((1..=600).contains(&flow.expires_in_seconds), "{flow:?}");
                assert!(flow.is_replied, "{flow:?}");
                (flow.reply.source.port(), flow.tcp_state)
            });
            observed.collect::<Vec<_>>()
        };
        let both = [(1, Some(TcpState::TimeWait)), (2, Some(TcpState::Established))];
        assert_eq!(found("192.0.2.200"), both);
        assert_eq!(found("fd00::200"), [(4, Some(TcpState::FinWait))]);
        assert_eq!(found("192.0.2.202"), []);
        for (most, expected) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
            let address = "192.0.2.200".parse().expect("an address");
            let found = conntrack.flows_to(most, address, TCP, |_| true).expect("a list");
            assert_eq!(found.len(), expected, "{most}");
            let found = conntrack.flows_at_most(most, Family::V6, TCP, |_| true);
            assert_eq!(found.expect("a list").len(), expected, "{most}");
        }
    });
}

#[test]
fn events_report_begin_and_end() {
    testbed::in_namespace(|| {
        let mut events = Events::open().expect("a subscription");
        let mut conntrack = Conntrack::open().expect("a socket");
        let dns = flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353");
        create(&mut conntrack, &dns);
        let listed = conntrack.flows(Family::V4, UDP, |_| true).expect("a list");
        assert!(conntrack.delete(&listed[0]).expect("a deleted entry"));
        let mut found = Vec::new();
        while found.len() < 2 {
            assert!(
                events.wait(std::time::Duration::from_secs(5)).expect("a wait"),
                "{found:?}"
            );
            let read = events.read(1, |event| found.push(*event)).expect("events");
            assert!(!read.has_lost && read.events <= 1, "{read:?}");
        }
        let [Event::Begin(begin), Event::End(end)] = found[..] else {
            panic!("a begin and an end: {found:?}");
        };
        for flow in [begin, end] {
            assert_eq!(
                (flow.original, flow.reply, flow.id),
                (dns.original, dns.reply, listed[0].id)
            );
        }
        let read = events
            .read(usize::MAX, |event| panic!("{event:?}"))
            .expect("no events");
        assert!(read.is_drained);
        assert_eq!(read.events, 0);
    });
}

#[test]
fn visits_flows_of_all_families_and_protocols() {
    testbed::in_namespace(|| {
        let mut conntrack = Conntrack::open().expect("a socket");
        let dns = flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353");
        let web = connection(
            "[fd00::9]:4000",
            "[fd00::200]:80",
            "[fd00::2]:4",
            TcpState::Established,
        );
        create(&mut conntrack, &dns);
        create(&mut conntrack, &web);
        let mut found = Vec::new();
        conntrack
            .visit(|flow| found.push((flow.protocol, flow.original)))
            .expect("a list");
        found.sort_by_key(|(protocol, _)| *protocol);
        assert_eq!(found, [(TCP, web.original), (UDP, dns.original)]);
    });
}
