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
        group: 0,
    }
}

fn patterns(names: &[&str]) -> Vec<LinkPattern> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// The ports of a selection, with links that pools name.
fn ports(names: &[&str], named: &[&str], links: Vec<Link>) -> Vec<Port> {
    let selection = LinkSelection {
        names: patterns(names),
    };
    selection.choose(&patterns(named), links, |link| link != LinkIndex(9))
}

fn chosen(names: &[&str], links: Vec<Link>) -> Vec<String> {
    let used = ports(names, &[], links).into_iter();
    used.filter(|port| port.uses.are_any())
        .map(|port| port.name)
        .collect()
}

#[test]
fn links_to_the_network_are_used_if_none_are_named() {
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
fn links_are_named_wholly_or_by_their_beginning() {
    let links = || vec![link(1, "lo"), link(2, "eth0"), link(3, "eth10"), link(9, "veth1")];
    assert_eq!(chosen(&["eth1"], links()), [""; 0]);
    assert_eq!(chosen(&["eth1*", "veth1"], links()), ["eth10", "veth1"]);
    assert_eq!(chosen(&["lo"], links()), [""; 0]);
}

#[test]
fn pools_name_others_and_the_rest_of_the_network_is_known() {
    let links = || {
        vec![
            link(1, "lo"),
            link(2, "eth0"),
            link(3, "eth1"),
            link(4, "eth2"),
            link(5, "veth1"),
        ]
    };
    let found = ports(&["eth0"], &["eth1", "veth*", "lo"], links());
    let of = |name: &str| found.iter().find(|port| port.name == name).map(|port| port.uses);
    let uses = |is_selected, is_named| {
        Some(Uses {
            is_selected,
            is_named,
        })
    };
    assert_eq!((of("eth0"), of("eth1")), (uses(true, false), uses(false, true)));
    assert_eq!((of("eth2"), of("veth1")), (uses(false, false), uses(false, true)));
    assert_eq!(of("lo"), None);
}

#[test]
fn an_address_is_on_the_links_that_all_of_its_pools_name() {
    let found = ports(
        &["eth0"],
        &["*"],
        vec![link(2, "eth0"), link(3, "eth1"), link(4, "bond0")],
    );
    let of = |pools: &[&[&str]]| {
        let pools: Vec<Arc<[LinkPattern]>> = pools.iter().map(|names| patterns(names).into()).collect();
        let links = AddressLinks::of(&pools);
        let ports = found.iter().filter(|port| links.have(port));
        (
            ports.map(|port| port.name.as_str()).collect::<Vec<_>>().join(" "),
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
        "the order of pools is nothing"
    );
    assert!(first.is_some() && second.is_some() && first != second);
    // Other machines, of other versions too, must come to the same.
    assert_eq!(of(&[&["eth1"]]).1, Some(LinksId(0x9808_16f3_6b77_e58d)));
}
