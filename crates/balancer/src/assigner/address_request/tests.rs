use serde_json::{Value, json};

use super::*;

fn service(annotations: Value, spec: Value) -> Service {
    let object = json!({"metadata": {"name": "s", "annotations": annotations}, "spec": spec});
    serde_json::from_value(object).expect("Service")
}

fn annotated(name: &str, value: &str) -> Result<AddressRequest, RequestError> {
    AddressRequest::of(&service(json!({ name: value }), json!({"ipFamilies": ["IPv4"]})))
}

#[test]
fn family_policy_selects_families_and_need() {
    let of = |families: Value, policy: &str| {
        let request = AddressRequest::of(&service(
            json!({}),
            json!({"ipFamilies": families, "ipFamilyPolicy": policy}),
        ));
        request.map(|request| (request.families, request.family_policy))
    };
    assert_eq!(
        of(json!(["IPv6"]), "SingleStack"),
        Ok((vec![Family::V6], FamilyPolicy::All))
    );
    let both = vec![Family::V4, Family::V6];
    assert_eq!(
        of(json!(["IPv4", "IPv6"]), "RequireDualStack"),
        Ok((both.clone(), FamilyPolicy::All))
    );
    assert_eq!(
        of(json!(["IPv4", "IPv6"]), "PreferDualStack"),
        Ok((both, FamilyPolicy::Any))
    );
}

#[test]
fn all_address_annotations_request_addresses() {
    let mut names = rows().filter(|row| matches!(row.meaning, AnnotationMeaning::Addresses));
    assert_eq!(
        names.next().map(|row| row.name),
        Some("portolan.dev/load-balancer-ips")
    );
    for annotation in names.map(|row| row.name) {
        let request = annotated(annotation, "192.0.2.1, 2001:db8::1").expect(annotation);
        assert_eq!(request.addresses.len(), 2);
        for invalid in ["x", "192.0.2.1,", "0.0.0.0"] {
            let error = annotated(annotation, invalid).expect_err(invalid).to_string();
            assert!(
                error.contains(annotation) && error.contains("expected"),
                "{error}"
            );
        }
    }
    let field =
        |annotations, ip: &str| AddressRequest::of(&service(annotations, json!({ "loadBalancerIP": ip })));
    assert_eq!(
        field(json!({}), "192.0.2.1").map(|request| request.addresses),
        Ok(vec![IpAddr::from([192, 0, 2, 1])])
    );
    assert_eq!(
        field(json!({}), "x"),
        Err(RequestError::InvalidLoadBalancerIp("x".into()))
    );
    let both = json!({"metallb.io/loadBalancerIPs": "192.0.2.1"});
    assert!(field(both.clone(), "192.0.2.1").is_ok());
    assert!(matches!(
        field(both, "192.0.2.2"),
        Err(RequestError::Conflict { .. })
    ));
}

#[test]
fn rejects_annotations_with_different_values() {
    let annotations = json!({"metallb.io/address-pool": "a", "metallb.universe.tf/address-pool": "b"});
    let error = AddressRequest::of(&service(annotations, json!({}))).expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "metallb.io/address-pool and metallb.universe.tf/address-pool have different values: remove one of them"
    );
    let same = json!({"metallb.io/address-pool": "a", "portolan.dev/address-pool": "a"});
    assert_eq!(
        AddressRequest::of(&service(same, json!({}))).map(|request| request.pool),
        Ok(Some("a".into()))
    );
}

#[test]
fn scope_annotations_select_internal_pools() {
    for row in rows() {
        let AnnotationMeaning::Scope { internal, external } = row.meaning else {
            continue;
        };
        let annotation = row.name;
        for value in internal.iter().filter(|value| **value != "*") {
            assert_eq!(
                annotated(annotation, value).map(|request| request.is_internal),
                Ok(true),
                "{annotation}"
            );
        }
        for value in external {
            assert_eq!(
                annotated(annotation, value).map(|request| request.is_internal),
                Ok(false),
                "{annotation}"
            );
        }
        if internal.contains(&"*") {
            assert_eq!(
                annotated(annotation, "subnet-1").map(|request| request.is_internal),
                Ok(true)
            );
            continue;
        }
        assert!(annotated(annotation, "perhaps").is_err());
    }
    let both = json!({
        "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
        "portolan.dev/load-balancer-scope": "External",
    });
    assert!(matches!(
        AddressRequest::of(&service(both, json!({}))),
        Err(RequestError::Conflict { .. })
    ));
}

#[test]
fn sharing_follows_policy_selector_and_namespace() {
    let of = |policy: &str, namespace: &str| {
        let spec = json!({
            "externalTrafficPolicy": policy, "selector": {"app": "a"},
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        });
        let mut service = service(json!({"portolan.dev/allow-shared-ip": "k"}), spec);
        namespace.clone_into(&mut service.metadata.namespace);
        sharing(&service)
    };
    let cluster = Sharing::new(Some("k".into()), [(6, 80), (17, 53)], None);
    assert_eq!(of("Cluster", "shop"), Ok(cluster));
    let backends = Some("shop/app=a".into());
    let local = Sharing::new(Some("k".into()), [(6, 80), (17, 53)], backends);
    assert_eq!(of("Local", "shop"), Ok(local));
    assert_ne!(of("Local", "shop"), of("Local", "other"));
}

#[test]
fn cloud_annotations_request_an_address_of_each_family() {
    let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
    let both = json!({
        aws("private-ipv4-addresses"): "192.0.2.1, 192.0.2.129",
        aws("ipv6-addresses"): "2001:db8::1",
    });
    let request = AddressRequest::of(&service(both, json!({}))).expect("request");
    let addresses: Vec<String> = request.addresses.iter().map(IpAddr::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "2001:db8::1"]);
    assert!(
        annotated(
            "service.beta.kubernetes.io/azure-load-balancer-ipv4",
            "2001:db8::1"
        )
        .is_err()
    );
    // Portolan's annotation takes precedence: it lists all addresses.
    let own = json!({"portolan.dev/load-balancer-ips": "192.0.2.9", aws("ipv6-addresses"): "2001:db8::1"});
    let request = AddressRequest::of(&service(own, json!({}))).expect("request");
    assert_eq!(request.addresses, [IpAddr::from([192, 0, 2, 9])]);
}
