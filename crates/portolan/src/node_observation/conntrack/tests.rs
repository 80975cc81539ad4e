use super::*;

// Recorded with two processors; columns as in Linux 6.
const STATISTICS: &str = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
0000001a  00000000 00000000 00000000 00000003 00000000 00000000 00000003 00000000 0000000a 00000001 00000000 00000000  00000000 00000000 00000000 00000000
0000001a  00000000 00000000 00000000 00000001 00000000 00000000 00000002 00000000 00000002 00000000 00000000 00000000  00000000 00000000 00000000 00000000
";

#[test]
fn statistics_of_all_processors_are_added() {
    let expected = Statistics {
        insert_failed: 12,
        drops: 1,
    };
    assert_eq!(parse_statistics(STATISTICS), Some(expected));
    for text in ["", "entries found", "insert_failed drop\nx y z"] {
        assert!(
            parse_statistics(text).is_none_or(|found| found == Statistics::default()),
            "{text}"
        );
    }
}

#[test]
fn service_addresses_and_node_ports_are_destinations() {
    let mut destinations = Destinations::default();
    destinations
        .addresses
        .extend(["10.96.0.7".parse::<IpAddr>().expect("an address")]);
    destinations
        .node_addresses
        .extend(["192.0.2.1".parse::<IpAddr>().expect("an address")]);
    destinations.node_ports.insert((6, 30_080));
    let contains =
        |protocol: u8, text: &str| destinations.contains(protocol, text.parse().expect("an address"));
    assert!(contains(17, "10.96.0.7:53") && contains(6, "192.0.2.1:30080"));
    assert!(!contains(17, "192.0.2.1:30080"), "another protocol");
    assert!(!contains(6, "192.0.2.2:30080"), "another host");
    assert!(!contains(6, "10.96.0.8:80"));
    destinations
        .service_ranges
        .push("10.96.0.0/16".parse().expect("a range"));
    let former = "10.96.0.8:80".parse().expect("an address");
    assert!(
        destinations.contains(6, former),
        "a cluster IP that no Service has any more"
    );
}

#[test]
fn largest_counts_come_first() {
    let key = |port: u16| {
        let endpoint = SocketAddr::from(([10, 244, 1, 2], port));
        (TransportProtocol::Tcp, IpAddr::from([192, 0, 2, 1]), endpoint)
    };
    let mut counts: HashMap<Masqueraded, u64> = (0..200).map(|port| (key(port), 1)).collect();
    counts.insert(key(443), 7);
    let found = largest_counts(counts);
    assert_eq!(found.len(), MASQUERADED_MAX);
    assert_eq!((found[0].destination_port, found[0].connections), (443, 7));
}
