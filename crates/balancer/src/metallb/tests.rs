use serde_json::json;

use super::*;

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("object")
}

fn pool(name: &str, labels: Value) -> IpAddressPool {
    read(json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"addresses": ["192.0.2.0/24"]},
    }))
}

fn configuration(pools: &[IpAddressPool], advertisements: &[(&str, Value)]) -> Configuration {
    let pools = pools.iter().cloned();
    let advertisements = advertisements.iter().map(|(name, spec)| {
        let object = read(json!({"metadata": {"name": name}, "spec": spec}));
        ((*name).to_owned(), object)
    });
    Configuration {
        pools: pools.map(|pool| (pool.metadata.name.clone(), pool)).collect(),
        advertisements: advertisements.collect(),
    }
}

#[test]
fn advertisement_selects_pools_by_name_or_labels() {
    let public = pool("public", json!({"zone": "dmz"}));
    let office = pool("office", json!({}));
    let of = |spec: Value| {
        let configuration = configuration(&[public.clone(), office.clone()], &[("a", spec)]);
        let selects = |pool: &IpAddressPool| configuration.advertisements_of(pool).next().is_some();
        (selects(&public), selects(&office))
    };
    assert_eq!(of(json!({})), (true, true));
    assert_eq!(of(json!({"ipAddressPools": ["office"]})), (false, true));
    let selectors = json!([{"matchLabels": {"zone": "dmz"}}]);
    assert_eq!(of(json!({"ipAddressPoolSelectors": selectors})), (true, false));
    let both = json!({"ipAddressPools": ["office"], "ipAddressPoolSelectors": selectors});
    assert_eq!(of(both), (true, true));
}

#[test]
fn changed_pools_are_those_with_another_spec_or_advertisement() {
    let (public, office) = (pool("public", json!({})), pool("office", json!({})));
    let before = configuration(&[public.clone(), office.clone()], &[]);
    let mut used = office.clone();
    used.status.assigned_ipv4 = 1;
    used.metadata.resource_version = "7".to_owned();
    let same = configuration(&[public.clone(), used], &[]);
    assert_eq!(
        same.changed_pools(&before),
        BTreeSet::new(),
        "only the status differs"
    );
    let advertised = configuration(
        &[public.clone(), office],
        &[("a", json!({"ipAddressPools": ["public"]}))],
    );
    assert_eq!(
        advertised.changed_pools(&before),
        BTreeSet::from(["public".to_owned()])
    );
    let removed = configuration(&[public], &[]);
    assert_eq!(
        removed.changed_pools(&before),
        BTreeSet::from(["office".to_owned()])
    );
}

#[test]
fn reads_all_fields_of_the_kinds() {
    let pool: IpAddressPool = read(json!({
        "metadata": {"name": "p", "namespace": NAMESPACE},
        "spec": {
            "addresses": ["192.0.2.0/28"], "autoAssign": false, "avoidBuggyIPs": true,
            "serviceAllocation": {
                "priority": 50, "namespaces": ["a"],
                "namespaceSelectors": [{"matchLabels": {"b": "c"}}],
                "serviceSelectors": [{"matchExpressions": [{"key": "d", "operator": "Exists"}]}],
            },
        },
        "status": {"assignedIPv4": 1, "assignedIPv6": 0, "availableIPv4": 15, "availableIPv6": 0},
    }));
    let allocation = pool.spec.service_allocation.expect("serviceAllocation");
    assert_eq!(
        (pool.spec.auto_assign, pool.spec.avoid_buggy_ips),
        (Some(false), true)
    );
    assert_eq!(
        (allocation.priority, allocation.namespaces.as_slice()),
        (50, ["a".to_owned()].as_slice())
    );
    assert_eq!(
        (
            allocation.namespace_selectors.len(),
            allocation.service_selectors.len()
        ),
        (1, 1)
    );
    assert_eq!((pool.status.assigned_ipv4, pool.status.available_ipv4), (1, 15));
    let advertisement: L2Advertisement = read(json!({"spec": {
        "ipAddressPools": ["p"], "ipAddressPoolSelectors": [{}], "nodeSelectors": [{}],
        "serviceSelectors": [{}], "interfaces": ["eth0"],
    }}));
    let spec = advertisement.spec;
    assert_eq!(
        (spec.ip_address_pools, spec.interfaces),
        (vec!["p".to_owned()], vec!["eth0".to_owned()])
    );
    let counts = [
        &spec.ip_address_pool_selectors,
        &spec.node_selectors,
        &spec.service_selectors,
    ];
    assert!(counts.iter().all(|selectors| selectors.len() == 1));
}
