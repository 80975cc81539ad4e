use super::*;

#[test]
fn finds_kinds_by_path_and_by_kind() {
    let slice = find("discovery.k8s.io", "v1", "endpointslices").expect("served");
    assert_eq!(slice.kind, "EndpointSlice");
    assert_eq!(slice.api_version(), "discovery.k8s.io/v1");
    assert_eq!(slice.root_path(), "/apis/discovery.k8s.io/v1");
    assert_eq!(slice.qualified_plural(), "endpointslices.discovery.k8s.io");
    assert!(std::ptr::eq(
        slice,
        find_by_kind("discovery.k8s.io/v1", "EndpointSlice").expect("served")
    ));
    assert!(find("", "v1", "endpointslices").is_none());
    assert!(find("", "v2", "services").is_none());
    assert!(find_by_kind("v1", "EndpointSlice").is_none());
    assert!(find_by_kind("x/v1", "Service").is_none());
}

#[test]
fn store_keys_follow_group_and_scope() {
    let service = find("", "v1", "services").expect("served");
    assert_eq!(
        service.store_key("default", "kubernetes"),
        "/services/default/kubernetes"
    );
    assert_eq!(service.store_prefix(None), "/services/");
    assert_eq!(service.store_prefix(Some("a")), "/services/a/");
    let address = find("networking.k8s.io", "v1", "ipaddresses").expect("served");
    assert_eq!(
        address.store_key("ignored", "10.96.0.1"),
        "/networking.k8s.io/ipaddresses/10.96.0.1"
    );
}

#[test]
fn kind_rows_are_consistent() {
    for kind in all() {
        if kind.is_stored() {
            assert_eq!(kind.list_kind, format!("{}List", kind.kind));
        } else {
            assert_eq!(kind.verbs, ["create"]);
        }
        assert_eq!(kind.singular, kind.kind.to_lowercase());
        assert!(
            kind.definition.ends_with(&format!(".{}", kind.kind)),
            "{}",
            kind.definition
        );
        assert!(kind.verbs.is_sorted(), "{}", kind.kind);
        assert!(std::ptr::eq(
            kind,
            find(kind.group, kind.version, kind.plural).expect("the kind")
        ));
    }
}

#[test]
fn measured_kinds_are_served_beside_those_with_a_schema() {
    let pods = find("metrics.k8s.io", "v1beta1", "pods").expect("served");
    assert_eq!((pods.kind, pods.list_kind), ("PodMetrics", "PodMetricsList"));
    assert!(pods.is_measured() && pods.is_stored_form() && !pods.has_protobuf());
    assert!(all().iter().all(|kind| !kind.is_measured()));
    assert!(!find("", "v1", "pods").expect("served").is_measured());
}
