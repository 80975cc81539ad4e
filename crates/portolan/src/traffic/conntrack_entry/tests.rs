use netlink::conntrack::{Count, Counters};

use super::*;

fn flow(protocol: u8) -> Flow {
    let at = |text: &str| text.parse().expect("an address and port");
    Flow {
        protocol,
        original: netlink::conntrack::Direction {
            source: at("10.244.1.9:4000"),
            destination: at("10.96.0.5:80"),
        },
        reply: netlink::conntrack::Direction {
            source: at("10.244.1.2:8080"),
            destination: at("10.244.1.9:4000"),
        },
        counters: None,
        tcp_state: None,
        expires_in_seconds: 30,
        began_at_nanoseconds: None,
        is_replied: false,
        is_assured: false,
        id: 7,
        zone: 2,
    }
}

#[test]
fn entry_has_addresses_counters_and_age() {
    let counted = Flow {
        counters: Some(Counters {
            original: Count {
                packets: 3,
                bytes: 180,
            },
            reply: Count {
                packets: 2,
                bytes: 900,
            },
        }),
        began_at_nanoseconds: Some(5_500_000_000),
        ..flow(17)
    };
    let found = entry(&counted, Duration::from_secs(8)).expect("an entry");
    assert_eq!((found.bytes, found.reply_packets), (Some([180, 900]), Some(2)));
    assert_eq!(found.age, Some(Duration::from_millis(2_500)));
    assert_eq!(
        (found.id, found.zone, found.expires_in),
        (7, 2, Duration::from_secs(30))
    );
    assert_eq!(found.reply.source, counted.reply.source);
    let future = entry(&counted, Duration::from_secs(1)).expect("an entry");
    assert_eq!(future.age, Some(Duration::ZERO), "the clock has changed");
}

#[test]
fn state_without_details_follows_replies() {
    let state = |protocol, is_replied, tcp_state| {
        let found = Flow {
            is_replied,
            tcp_state,
            ..flow(protocol)
        };
        entry(&found, Duration::ZERO).map(|entry| entry.state.name())
    };
    assert_eq!(state(6, false, None), Some("SYN_SENT"));
    assert_eq!(state(6, true, None), Some("CLOSE"));
    assert_eq!(state(6, true, Some(TcpState::FinWait)), Some("FIN_WAIT"));
    assert_eq!(state(17, false, None), Some("UNREPLIED"));
    assert_eq!(state(17, true, None), Some("REPLIED"));
    assert_eq!(state(132, true, None), Some("REPLIED"));
    assert_eq!(state(1, true, None), None, "ICMP has no Services");
}
