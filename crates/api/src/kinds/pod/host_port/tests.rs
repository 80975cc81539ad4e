use super::*;

const FIRST: RequestedHostPort<'_> = RequestedHostPort {
    host_ip: "192.0.2.1",
    protocol: "TCP",
    port: 80,
};

fn at(host_ip: &str) -> RequestedHostPort<'_> {
    RequestedHostPort { host_ip, ..FIRST }
}

/// Compares in both directions, and with a set of ports in use.
fn is_conflict(a: RequestedHostPort<'_>, b: RequestedHostPort<'_>) -> bool {
    let is_conflict = a.conflicts_with(&b);
    assert_eq!(b.conflicts_with(&a), is_conflict, "{a:?} {b:?}");
    for (port, other) in [(a, b), (b, a)] {
        let used = UsedHostPorts::from_iter([other]);
        assert_eq!(used.conflict_with(&port), is_conflict, "{port:?} {other:?}");
    }
    is_conflict
}

#[test]
fn any_address_conflicts_with_all_addresses() {
    let all = [
        "",
        "0.0.0.0",
        "::",
        "0:0::0",
        "192.0.2.1",
        "2001:db8::1",
        "192.0.2.010",
    ];
    for any in ["", "0.0.0.0"] {
        for host_ip in all {
            assert!(is_conflict(at(any), at(host_ip)), "{any:?} {host_ip:?}");
        }
    }
}

#[test]
fn one_address_conflicts_with_itself_only() {
    for (a, b, expected) in [
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "2001:db8::1", false),
        ("2001:db8::1", "2001:0db8:0::1", true),
        ("2001:db8::1", "2001:db8::2", false),
        ("127.0.0.1", "192.0.2.1", false),
        ("192.0.2.010", "192.0.2.010", true),
        ("192.0.2.010", "192.0.2.10", false),
        ("::", "0:0::0", true),
        ("::", "192.0.2.1", false),
        ("::", "2001:db8::1", false),
    ] {
        assert_eq!(is_conflict(at(a), at(b)), expected, "{a:?} {b:?}");
    }
}

#[test]
fn protocols_and_ports_separate_host_ports() {
    let with = |protocol, port| RequestedHostPort {
        host_ip: "",
        protocol,
        port,
    };
    assert!(is_conflict(FIRST, with("TCP", 80)));
    assert!(is_conflict(FIRST, with("", 80)), "TCP is the default");
    assert!(!is_conflict(FIRST, with("UDP", 80)));
    assert!(!is_conflict(FIRST, with("TCP", 81)));
    assert!(
        !is_conflict(with("TCP", 0), with("TCP", 0)),
        "0 is not a host port"
    );
}

#[test]
fn many_ports_are_compared_in_linear_time() {
    let addresses: Vec<String> = (0..100_000_u32)
        .map(|number| std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string())
        .collect();
    let (even, odd): (Vec<_>, Vec<_>) = addresses
        .chunks_exact(2)
        .map(|pair| (at(&pair[0]), at(&pair[1])))
        .unzip();
    let used: UsedHostPorts<'_> = even.into_iter().collect();
    // The comparison of all pairs would take minutes.
    assert!(!odd.iter().any(|port| used.conflict_with(port)));
    assert!(used.conflict_with(&at("")));
}
