use std::net::SocketAddr;

use netlink::conntrack::Direction;

use super::*;

fn flow(client: &str, destination: &str, endpoint: &str, translated: &str) -> Flow {
    let at = |text: &str, port: u16| SocketAddr::new(text.parse().expect("an address"), port);
    Flow {
        protocol: 6,
        original: Direction {
            source: at(client, 40_000),
            destination: at(destination, 443),
        },
        reply: Direction {
            source: at(endpoint, 443),
            destination: at(translated, 40_000),
        },
        counters: None,
        tcp_state: None,
        expires_in_seconds: 0,
        began_at_nanoseconds: None,
        is_replied: true,
        is_assured: true,
        id: 1,
        zone: 0,
    }
}

#[test]
fn flows_to_outside_with_another_source_are_stale() {
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let expected = BTreeMap::from([
        (ip("10.244.1.7"), Some(ip("192.0.2.100"))),
        (ip("10.244.1.8"), None),
    ]);
    let inside: Vec<IpNet> = vec!["10.244.0.0/16".parse().expect("a range")];
    let outside = "198.51.100.1";
    for (flow, is_expected) in [
        // Masqueraded before the annotation.
        (flow("10.244.1.7", outside, outside, "192.0.2.1"), true),
        (flow("10.244.1.7", outside, outside, "192.0.2.100"), false),
        // The annotation was removed.
        (flow("10.244.1.8", outside, outside, "10.244.1.8"), true),
        // Through a cluster IP to another Pod.
        (flow("10.244.1.7", "10.96.0.9", "10.244.2.7", "10.244.1.7"), false),
        // Another Pod.
        (flow("10.244.1.9", outside, outside, "192.0.2.1"), false),
    ] {
        assert_eq!(is_stale(&flow, &expected, &inside), is_expected, "{flow:?}");
    }
}
