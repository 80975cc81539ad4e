use super::own_addresses;

#[test]
fn own_addresses_exclude_loopback() {
    let listen = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect::<Vec<_>>()
    };
    assert!(
        own_addresses(&listen(&["127.0.0.1:53", "[::1]:53"])).is_empty(),
        "other hosts do not reach loopback"
    );
    let named = own_addresses(&listen(&["192.0.2.1:53", "192.0.2.1:5353", "[fd00::1]:53"]));
    assert_eq!(
        named,
        [
            "192.0.2.1".parse::<std::net::IpAddr>().expect("v4"),
            "fd00::1".parse().expect("v6")
        ]
    );
    let everywhere = own_addresses(&listen(&["0.0.0.0:53"]));
    assert!(
        everywhere
            .iter()
            .all(|address| address.is_ipv4() && !address.is_loopback())
    );
}
