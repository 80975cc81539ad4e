use super::*;
use crate::schema::{MAPPING_VIP_EXTERNAL_IP, PortMapping};

fn request(vip: &str, endpoints: &[&str]) -> LoadBalancer {
    LoadBalancer {
        endpoints: endpoints.iter().map(|id| HnsId::from(*id)).collect(),
        frontend_vips: vec![vip.to_owned()],
        port_mappings: vec![PortMapping {
            protocol: 6,
            internal_port: 8080,
            external_port: 80,
            flags: MAPPING_VIP_EXTERNAL_IP,
            ..PortMapping::default()
        }],
        ..LoadBalancer::default()
    }
}

fn observed(id: &str, request: &LoadBalancer) -> LoadBalancer {
    LoadBalancer {
        id: id.into(),
        ..request.clone()
    }
}

fn resolved(request: LoadBalancer) -> ResolvedLoadBalancer {
    let service = ObjectKey::new("ns", "web");
    ResolvedLoadBalancer { service, request }
}

fn desired(requests: &[LoadBalancer]) -> BTreeMap<BalancerKey, ResolvedLoadBalancer> {
    let pair = |request: &LoadBalancer| (key_of(request).unwrap(), resolved(request.clone()));
    requests.iter().map(pair).collect()
}

#[test]
fn equal_load_balancers_are_kept() {
    let requested = request("10.96.0.10", &["A", "B"]);
    let mut found = observed("1", &requested);
    found.endpoints.reverse();
    let operations = operations(&desired(&[requested]), &[found], &HashMap::new(), true);
    assert_eq!(operations, []);
}

#[test]
fn absent_load_balancers_are_created_and_others_deleted_first() {
    let requested = request("10.96.0.10", &["A"]);
    let stale = observed("1", &request("10.96.0.11", &["A"]));
    let operations = operations(
        &desired(std::slice::from_ref(&requested)),
        &[stale],
        &HashMap::new(),
        true,
    );
    let expected = [
        Operation::Delete("1".into()),
        Operation::Create(resolved(requested)),
    ];
    assert_eq!(operations, expected);
}

#[test]
fn changed_endpoints_modify_or_replace_the_load_balancer() {
    let found = observed("1", &request("10.96.0.10", &["A"]));
    let requested = request("10.96.0.10", &["A", "B"]);
    let desired = desired(std::slice::from_ref(&requested));
    let id = HnsId::from("1");
    let to = resolved(requested.clone());
    assert_eq!(
        operations(&desired, std::slice::from_ref(&found), &HashMap::new(), true),
        [Operation::Modify { id, to }]
    );
    assert_eq!(
        operations(&desired, &[found], &HashMap::new(), false),
        [
            Operation::Delete("1".into()),
            Operation::Create(resolved(requested))
        ]
    );
}

#[test]
fn each_changed_field_is_a_difference() {
    let requested = request("10.96.0.10", &["A"]);
    let changes: [fn(&mut LoadBalancer); 5] = [
        |of| of.flags = 1,
        |of| of.source_vip = "10.244.1.2".to_owned(),
        |of| of.port_mappings[0].internal_port = 8081,
        |of| of.port_mappings[0].flags = 0,
        |of| of.port_mappings[0].distribution_type = 2,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut found = observed("1", &requested);
        change(&mut found);
        let desired = desired(std::slice::from_ref(&requested));
        let operations = operations(&desired, &[found], &HashMap::new(), true);
        assert!(
            matches!(operations[..], [Operation::Modify { .. }]),
            "change {number}: {operations:?}"
        );
    }
}

#[test]
fn duplicates_are_deleted() {
    let requested = request("10.96.0.10", &["A"]);
    let found = [
        observed("1", &request("10.96.0.10", &["B"])),
        observed("2", &requested),
    ];
    let operations = operations(&desired(&[requested]), &found, &HashMap::new(), true);
    assert_eq!(operations, [Operation::Delete("1".into())]);
}

#[test]
fn load_balancers_of_another_form_are_deleted() {
    let requested = request("10.96.0.10", &["A"]);
    let mut two_ports = observed("1", &requested);
    two_ports.port_mappings.push(PortMapping::default());
    let mut two_vips = observed("2", &requested);
    two_vips.frontend_vips.push("10.96.0.11".to_owned());
    let no_address = observed("3", &request("web", &["A"]));
    let found = [two_ports, two_vips, no_address];
    let operations = operations(&BTreeMap::new(), &found, &HashMap::new(), true);
    assert_eq!(operations, ["1", "2", "3"].map(|id| Operation::Delete(id.into())));
}

#[test]
fn other_form_of_an_own_request_is_not_a_difference() {
    let requested = request("10.96.0.10", &["A"]);
    let mut found = observed("1", &requested);
    found.port_mappings[0].flags = 0;
    let written = HashMap::from([(found.id.clone(), requested.clone())]);
    let desired = desired(&[requested]);
    assert_eq!(
        operations(&desired, std::slice::from_ref(&found), &written, true),
        []
    );
    found.endpoints.clear();
    assert_eq!(operations(&desired, &[found], &written, true).len(), 1);
}

#[test]
fn texts_of_ipv6_addresses_are_compared_as_addresses() {
    let mut requested = request("fd00:10:96::10", &["A"]);
    requested.flags = BALANCER_IPV6;
    let mut found = observed("1", &requested);
    found.frontend_vips = vec!["FD00:10:96:0:0:0:0:10".to_owned()];
    assert_eq!(
        operations(&desired(&[requested]), &[found], &HashMap::new(), true),
        []
    );
}

#[test]
fn node_ports_of_both_families_are_different() {
    let mut v4 = request("10.96.0.10", &["A"]);
    v4.frontend_vips.clear();
    let v6 = LoadBalancer {
        flags: BALANCER_IPV6,
        ..v4.clone()
    };
    let found = [observed("1", &v4), observed("2", &v6)];
    assert_eq!(operations(&desired(&[v4, v6]), &found, &HashMap::new(), true), []);
}
