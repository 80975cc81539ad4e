use super::*;

const NETWORK: LinkIndex = LinkIndex(2);
const PODS: LinkIndex = LinkIndex(3);

#[test]
fn longest_prefix_selects_the_link_of_a_client() {
    let network = |text: &str| -> IpNet { text.parse().unwrap() };
    let gateway = "192.0.2.1".parse().unwrap();
    let routes = [
        Route::new(
            network("0.0.0.0/0"),
            Action::Via {
                gateway,
                link: Some(NETWORK),
            },
        ),
        Route::on_link(network("192.0.2.0/24"), NETWORK),
        Route::new(network("192.0.2.5/32"), Action::Local(NETWORK)),
        Route::on_link(network("10.244.1.0/24"), PODS),
        Route::new(network("203.0.113.0/24"), Action::Blackhole),
    ];
    let mut clients = LinkClients::with_routes(&routes, &BTreeSet::from([NETWORK]));
    for (address, expected) in [
        ("198.51.100.7", true),
        ("192.0.2.9", true),
        ("192.0.2.5", false),
        ("10.244.1.4", false),
        ("10.244.2.4", true),
        ("203.0.113.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(clients.contain(address.parse().unwrap()), expected, "{address}");
    }
}

#[test]
fn host_without_routes_has_no_clients() {
    let mut clients = LinkClients::with_routes(&[], &BTreeSet::from([NETWORK]));
    assert!(!clients.contain("192.0.2.9".parse().unwrap()));
}
