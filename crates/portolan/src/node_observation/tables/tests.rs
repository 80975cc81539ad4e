use netlink::nftables::InventoryTable;

use super::*;

#[test]
fn base_chains_come_first_and_survive_the_limit() {
    let plain = |number: usize| InventoryChain {
        name: format!("KUBE-SVC-{number}"),
        rules: 1,
        ..InventoryChain::default()
    };
    let mut chains: Vec<InventoryChain> = (0..CHAINS_OF_TABLE_MAX).map(plain).collect();
    chains.push(InventoryChain {
        name: SERVICES_CHAIN.to_owned(),
        ..InventoryChain::default()
    });
    chains.push(InventoryChain {
        name: "FORWARD".to_owned(),
        kind: Some("filter".to_owned()),
        hook: Some("forward"),
        priority: Some(0),
        accepts: Some(false),
        rules: 7,
    });
    let inventory = Inventory {
        tables: vec![InventoryTable {
            family: "ip".to_owned(),
            name: "filter".to_owned(),
            is_dormant: true,
            chains,
        }],
        is_truncated: false,
    };
    let (tables, is_truncated) = observed_tables(&inventory);
    assert!(is_truncated && tables[0].dormant);
    let chains = tables[0].chains.as_ref().expect("chains");
    assert_eq!(chains.len(), CHAINS_OF_TABLE_MAX);
    assert_eq!(chains[0].policy.as_deref(), Some("drop"));
    assert_eq!(
        (chains[0].hook.as_deref(), chains[0].rules),
        (Some("forward"), Some(7))
    );
    assert_eq!(chains[1].name, SERVICES_CHAIN);
    assert_eq!(chains[2].name, "KUBE-SVC-0");
    assert_eq!(observed_tables(&Inventory::default()), (Vec::new(), false));
}
