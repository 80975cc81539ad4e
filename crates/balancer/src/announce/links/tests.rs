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
    }
}

fn chosen(names: &[&str], links: Vec<Link>) -> Vec<String> {
    let selection = LinkSelection {
        names: names.iter().map(ToString::to_string).collect(),
    };
    let ports = selection.choose(links, |link| link != LinkIndex(9));
    ports.into_iter().map(|port| port.name).collect()
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
