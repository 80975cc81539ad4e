use super::*;

fn link(index: u32, name: &str) -> Link {
    Link {
        index: LinkIndex(index),
        name: name.to_owned(),
        kind: String::new(),
        is_up: true,
        is_loopback: name == "lo",
        mtu_bytes: 1_500,
        master: None,
        ethernet: Some([2, 0, 0, 0, 0, index as u8]),
        vxlan: None,
        encapsulation_port: None,
        group: 0,
        is_promiscuous: false,
        is_hairpin: None,
        lower: None,
    }
}

fn patterns(names: &[&str]) -> Vec<LinkPattern> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Links of a selection, with links that AddressPools name.
fn choose(names: &[&str], pool_links: &[&str], links: Vec<Link>) -> Vec<NetworkLink> {
    let selection = LinkSelection {
        names: patterns(names),
    };
    selection.choose(&patterns(pool_links), links, |link| link != LinkIndex(9))
}

fn chosen(names: &[&str], links: Vec<Link>) -> Vec<String> {
    let used = choose(names, &[], links).into_iter();
    used.filter(|link| link.uses.is_announcing())
        .map(|link| link.name)
        .collect()
}

#[test]
fn selects_links_with_global_addresses_by_default() {
    let down = Link {
        is_up: false,
        ..link(3, "eth1")
    };
    let port = Link {
        master: Some(LinkIndex(5)),
        ..link(4, "eth2")
    };
    let tunnel = Link {
        ethernet: None,
        ..link(6, "wg0")
    };
    let links = vec![
        link(1, "lo"),
        link(2, "eth0"),
        down,
        port,
        link(5, "br0"),
        tunnel,
        link(7, "veth12"),
        link(9, "unnumbered"),
    ];
    assert_eq!(chosen(&[], links), ["eth0", "br0"]);
}

#[test]
fn selects_links_by_name_or_prefix() {
    let links = || vec![link(1, "lo"), link(2, "eth0"), link(3, "eth10"), link(9, "veth1")];
    assert_eq!(chosen(&["eth1"], links()), [""; 0]);
    assert_eq!(chosen(&["eth1*", "veth1"], links()), ["eth10", "veth1"]);
    assert_eq!(chosen(&["lo"], links()), [""; 0]);
}

#[test]
fn keeps_pool_links_and_other_network_links() {
    let links = || {
        vec![
            link(1, "lo"),
            link(2, "eth0"),
            link(3, "eth1"),
            link(4, "eth2"),
            link(5, "veth1"),
        ]
    };
    let found = choose(&["eth0"], &["eth1", "veth*", "lo"], links());
    let of = |name: &str| found.iter().find(|link| link.name == name).map(|link| link.uses);
    let uses = |is_default, is_in_pool| {
        Some(LinkUses {
            is_default,
            is_in_pool,
        })
    };
    assert_eq!((of("eth0"), of("eth1")), (uses(true, false), uses(false, true)));
    assert_eq!((of("eth2"), of("veth1")), (uses(false, false), uses(false, true)));
    assert_eq!(of("lo"), None);
}

#[test]
fn address_links_are_the_intersection_of_its_pools() {
    let found = choose(
        &["eth0"],
        &["*"],
        vec![link(2, "eth0"), link(3, "eth1"), link(4, "bond0")],
    );
    let of = |pools: &[&[&str]]| {
        let pools: Vec<Arc<[LinkPattern]>> = pools.iter().map(|names| patterns(names).into()).collect();
        let links = AddressLinks::of(&pools);
        let chosen = found.iter().filter(|link| links.contain(link));
        (
            chosen
                .map(|link| link.name.as_str())
                .collect::<Vec<_>>()
                .join(" "),
            links.id(),
        )
    };
    assert_eq!(of(&[]), ("eth0".to_owned(), None));
    assert_eq!(of(&[&[]]), ("eth0".to_owned(), None));
    let (names, first) = of(&[&["eth1", "bond*"]]);
    assert_eq!(names, "eth1 bond0");
    let (names, second) = of(&[&["eth1", "bond*"], &[], &["eth*"]]);
    assert_eq!(names, "eth1");
    assert_eq!(
        second,
        of(&[&["eth*"], &["eth1", "bond*"]]).1,
        "the order of pools does not matter"
    );
    assert!(first.is_some() && second.is_some() && first != second);
    // Nodes of all versions have to compute the same identifier.
    assert_eq!(of(&[&["eth1"]]).1, Some(LinkSetId(0x9808_16f3_6b77_e58d)));
}
