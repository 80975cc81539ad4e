use std::process::{Command, Stdio};

use netlink::nftables::{Batch, Change, Table};

use super::*;

fn add_tables(tables: &[(TableFamily, &str)]) {
    let mut nftables = Nftables::open().expect("nftables");
    for (family, name) in tables {
        let mut batch = Batch::of_family(*family, name);
        let table = Table {
            name: (*name).to_owned(),
            comment: String::new(),
            is_dormant: false,
        };
        batch.table(Change::Add, &table, 0);
        nftables.commit(batch).expect("a table");
    }
}

#[test]
fn removes_leftovers_except_current_mode() {
    testbed::in_namespace(|| {
        let own = (TableFamily::Inet, OWN_TABLE);
        add_tables(&[TABLES[0], TABLES[1], own]);
        let remove = |mode, scope| {
            let removal = remove_leftovers(mode, scope);
            assert_eq!(removal.failures, Vec::<String>::new());
            removal.removed
        };
        assert_eq!(
            remove(Some("nftables"), LeftoverScope::OwnModes),
            Vec::<String>::new()
        );
        assert_eq!(remove(Some("nftables"), LeftoverScope::KubeProxyToo).len(), 2);
        assert_eq!(
            remove(Some("nftables"), LeftoverScope::KubeProxyToo),
            Vec::<String>::new()
        );
        assert_eq!(
            remove(Some("iptables"), LeftoverScope::OwnModes),
            ["nftables table inet portolan"]
        );
    });
}

/// KPR-09: the link and the sets of kube-proxy's ipvs mode.
#[test]
fn removes_link_and_sets_of_ipvs_mode() {
    testbed::in_namespace(|| {
        // kube-proxy's link is of the type dummy, which not every kernel has. The name alone counts.
        run(
            "ip",
            &[
                "link",
                "add",
                dataplane::ipvs::LINK,
                "type",
                "veth",
                "peer",
                "name",
                "peer",
            ],
        );
        let has_sets = try_run("ipset", &["create", "KUBE-CLUSTER-IP", "hash:ip,port"]);
        if has_sets {
            run(
                "ipset",
                &["create", "KUBE-6-LOOP-BACK", "hash:ip", "family", "inet6"],
            );
            run("ipset", &["create", "FOREIGN", "hash:ip"]);
        }
        let removal = remove_leftovers(Some("nftables"), LeftoverScope::KubeProxyToo);
        assert_eq!(removal.failures, Vec::<String>::new());
        let mut removed = removal.removed;
        removed.sort();
        let all = [
            "ipset KUBE-6-LOOP-BACK",
            "ipset KUBE-CLUSTER-IP",
            "link kube-ipvs0",
        ];
        assert_eq!(removed, all[if has_sets { 0 } else { 2 }..]);
        let again = remove_leftovers(Some("nftables"), LeftoverScope::KubeProxyToo);
        assert_eq!(again, Removal::default());
        if has_sets {
            run("ipset", &["list", "FOREIGN"]);
        }
    });
}

fn try_run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn run(program: &str, arguments: &[&str]) {
    assert!(try_run(program, arguments), "{program} {arguments:?} failed");
}
