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
        assert_eq!(remove_leftovers(Some("nftables")).len(), 2);
        assert_eq!(remove_leftovers(Some("nftables")), Vec::<String>::new());
        assert_eq!(
            remove_leftovers(Some("iptables")),
            ["nftables table inet portolan"]
        );
    });
}
