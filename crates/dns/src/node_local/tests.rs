use netlink::route::Address;

use super::*;

fn link_addresses() -> Vec<IpNet> {
    let mut routes = Connection::open().expect("a socket");
    let Some(link) = routes.link(&LINK.parse().expect("a name")).expect("links") else {
        return Vec::new();
    };
    let all = routes.addresses().expect("addresses");
    let own = all.into_iter().filter(|address| address.link == link.index);
    // The kernel gives every link an address of its own family scope, too.
    own.filter(Address::is_global)
        .map(|address| address.network)
        .collect()
}

fn rule_count() -> usize {
    let mut nftables = Nftables::open().expect("a socket");
    match nftables.table(TABLE).expect("tables") {
        Some(_) => nftables.rules(TABLE).expect("rules").len(),
        None => 0,
    }
}

#[test]
fn link_and_rules_are_created_and_removed() {
    testbed::in_namespace(|| {
        let addresses: Vec<IpAddr> = ["169.254.20.10", "10.96.0.10", "fd00:96::a"]
            .map(|text| text.parse().expect("an address"))
            .into();
        let nets: Vec<IpNet> = addresses.iter().map(|address| IpNet::from(*address)).collect();
        tear_down().expect("missing rules are not an error");
        for _ in 0..2 {
            set_up(&addresses).expect("set up, and once more");
            let found = link_addresses();
            assert!(
                nets.iter().all(|net| found.contains(net)) && found.len() == 3,
                "{found:?}"
            );
            // Two hooks, two protocols, two ends.
            assert_eq!(rule_count(), 8 * addresses.len());
        }
        for address in &addresses {
            std::net::UdpSocket::bind((*address, 53)).expect("the address is this node's");
        }
        let rules = Nftables::open().expect("a socket").rules(TABLE).expect("rules");
        let is_last = |rule: &Rule| rule.expressions.last() == Some(&Expression::Notrack);
        assert!(
            rules.iter().all(|(_, rule)| is_last(rule)),
            "the kernel took the rules as they were meant"
        );
        set_up(&addresses[..1]).expect("set up with fewer");
        assert_eq!((link_addresses(), rule_count()), (nets[..1].to_vec(), 8));
        tear_down().expect("taken away");
        assert_eq!((link_addresses(), rule_count()), (Vec::new(), 0));
    });
}
