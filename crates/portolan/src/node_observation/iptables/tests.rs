use netlink::nftables::InventoryChain;

use super::*;

fn chain(name: &str, accepts: Option<bool>, rules: u64) -> InventoryChain {
    InventoryChain {
        name: name.to_owned(),
        accepts,
        rules,
        ..InventoryChain::default()
    }
}

fn inventory() -> Inventory {
    let table = |family: &str, name: &str, chains: Vec<InventoryChain>| InventoryTable {
        family: family.to_owned(),
        name: name.to_owned(),
        is_dormant: false,
        chains,
    };
    Inventory {
        tables: vec![
            table(
                "ip",
                "nat",
                vec![chain("PREROUTING", Some(true), 2), chain(SERVICES_CHAIN, None, 5)],
            ),
            table(
                "ip",
                "filter",
                vec![
                    chain("FORWARD", Some(false), 1),
                    chain("INPUT", Some(true), 0),
                    chain("DOCKER-USER", None, 0),
                ],
            ),
            table("inet", "filter", vec![chain("FORWARD", Some(false), 100)]),
        ],
        is_truncated: false,
    }
}

#[test]
fn tables_of_iptables_nft_are_counted() {
    let mut state = IptablesState::default();
    state.observed.nft_rules = Some(0);
    for family in &FAMILIES {
        state.add_nft(family, &inventory());
    }
    assert_eq!(state.observed.nft_rules, Some(8));
    assert_eq!(state.observed.services, Some(vec!["nft".to_owned()]));
    assert!(state.filter_chains.contains("DOCKER-USER"));
    assert_eq!(state.input_policies, ["ACCEPT"]);
    let forward = state.observed.forward.expect("chains");
    let policies: Vec<(&str, &str)> = forward
        .iter()
        .map(|chain| (chain.family.as_str(), chain.policy.as_str()))
        .collect();
    assert_eq!(policies, [("IPv4", "DROP")]);
}

#[test]
fn iptables_state_names_both_variants() {
    let mut state = IptablesState::default();
    state.observed.legacy_rules = Some(0);
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";
    state.add_legacy(&FAMILIES[0], Some(saved::parse(text, SERVICES_CHAIN)));
    state.add_legacy(&FAMILIES[1], None);
    state.add_nft(&FAMILIES[0], &inventory());
    let both = vec!["legacy".to_owned(), "nft".to_owned()];
    assert_eq!(state.observed.services, Some(both));
    assert_eq!(state.observed.legacy_rules, Some(1));
}

#[test]
fn programs_are_bounded() {
    assert_eq!(run("printf", &["a"]), Ok("a".to_owned()));
    assert!(run("false", &[]).is_err());
    assert!(run("/does/not/exist", &[]).is_err());
    let start = Instant::now();
    assert!(run("sleep", &["60"]).is_err());
    assert!(start.elapsed() < Duration::from_secs(50));
}
