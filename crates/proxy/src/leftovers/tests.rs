use netlink::nftables::{Batch, Change, Table};

use super::*;

const SAVED: &str = "*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ABC - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:MINE - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A PREROUTING -j MINE
-A OUTPUT -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-ABC
-A MINE -j RETURN
COMMIT
";

#[test]
fn only_kube_proxys_chains_go() {
    let (script, chains) = removal("nat", SAVED).expect("some are there");
    assert_eq!(chains, 2);
    assert_eq!(
        script,
        "*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ABC - [0:0]
-D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-D OUTPUT -j KUBE-SERVICES
-X KUBE-SERVICES
-X KUBE-SVC-ABC
COMMIT
"
    );
    assert_eq!(removal("nat", "*nat\n:MINE - [0:0]\nCOMMIT\n"), None);
}

#[test]
fn its_tables_and_chains_are_gone_afterwards() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().expect("nftables");
        for (family, name) in TABLES {
            let mut batch = Batch::of_family(family, name);
            let table = Table {
                name: name.to_owned(),
                comment: String::new(),
            };
            batch.table(Change::Add, &table, 0);
            nftables.commit(batch).expect("a table");
        }
        let has_iptables = restore("iptables-nft", SAVED).is_ok_and(|status| status.success());
        let found = remove_kube_proxy();
        let chains = found.iter().filter(|found| found.contains("chains")).count();
        assert_eq!(chains, usize::from(has_iptables), "{found:?}");
        assert_eq!(found.len() - chains, 2, "{found:?}");
        assert_eq!(remove_kube_proxy(), Vec::<String>::new());
    });
}
