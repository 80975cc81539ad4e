use super::*;

fn frontends(forwarded: Option<&[&str]>) -> TwoTierFrontends {
    let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    TwoTierFrontends {
        requested: BTreeSet::from(["192.0.2.5".parse().unwrap(), "2001:db8::5".parse().unwrap()]),
        forwarded: forwarded.map(parse),
    }
}

fn contains(frontends: &TwoTierFrontends, frontend: &str) -> bool {
    frontends.contain(frontend.parse().unwrap())
}

#[test]
fn requested_frontends_count_if_the_kernel_forwards_them() {
    let frontends = frontends(Some(&["192.0.2.5:80", "[2001:db8::5]:80", "192.0.2.6:80"]));
    assert!(contains(&frontends, "192.0.2.5:80"));
    assert!(contains(&frontends, "[2001:db8::5]:80"));
    assert!(!contains(&frontends, "192.0.2.5:443"), "another port");
    assert!(
        !contains(&frontends, "192.0.2.6:80"),
        "no Service of the address requests it"
    );
}

#[test]
fn node_without_two_tier_forwarding_has_no_frontends() {
    assert!(!contains(&frontends(Some(&[])), "192.0.2.5:80"));
}

#[test]
fn request_counts_if_the_frontends_are_not_known() {
    let unknown = frontends(None);
    assert!(contains(&unknown, "192.0.2.5:80"));
    assert!(!contains(&unknown, "192.0.2.6:80"));
}
