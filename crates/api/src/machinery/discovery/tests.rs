use super::*;

#[test]
fn core_group_lists_its_resources() {
    let list = resource_list("", "v1").expect("served group");
    assert_eq!(list["groupVersion"], "v1");
    let find = |name: &str| {
        let resources = list["resources"].as_array().expect("resources");
        resources
            .iter()
            .find(|resource| resource["name"] == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    assert_eq!(
        *find("services"),
        json!({"name": "services", "singularName": "service", "namespaced": true, "kind": "Service",
               "verbs": verbs, "storageVersionHash": "0/CO1lhkEBI=", "shortNames": ["svc"], "categories": ["all"]})
    );
    assert_eq!(
        *find("namespaces/finalize"),
        json!({"name": "namespaces/finalize", "singularName": "", "namespaced": false, "kind": "Namespace",
               "verbs": ["update"]})
    );
    assert_eq!(find("services/proxy")["kind"], "ServiceProxyOptions");
    let namespace_verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    assert_eq!(find("namespaces")["verbs"], json!(namespace_verbs));
    assert_eq!(find("nodes/status")["verbs"], json!(["get", "patch", "update"]));
    assert!(find("secrets").get("shortNames").is_none());
    assert_eq!(
        *find("serviceaccounts/token"),
        json!({"name": "serviceaccounts/token", "singularName": "", "namespaced": true, "kind": "TokenRequest",
               "verbs": ["create"], "group": "authentication.k8s.io", "version": "v1"})
    );
}

#[test]
fn lists_groups_and_versions() {
    assert!(resource_list("discovery.k8s.io", "v1beta1").is_none());
    assert!(api_group("nope").is_none());
    let group = api_group("discovery.k8s.io").expect("served group");
    assert_eq!(group["kind"], "APIGroup");
    assert_eq!(
        group["preferredVersion"],
        json!({"groupVersion": "discovery.k8s.io/v1", "version": "v1"})
    );
    let names: Vec<_> = groups().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "apps",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "batch",
            "certificates.k8s.io",
            "coordination.k8s.io",
            "discovery.k8s.io",
            "events.k8s.io",
            "multicluster.x-k8s.io",
            "networking.k8s.io",
            "portolan.dev",
            "rbac.authorization.k8s.io",
            "metrics.k8s.io"
        ]
    );
    assert_eq!(group_list()["groups"].as_array().map(Vec::len), Some(names.len()));
    assert_eq!(api_versions("192.0.2.1:6443")["versions"], json!(["v1"]));
}

#[test]
fn aggregated_documents_contain_all_kinds() {
    let mut kinds = 0;
    for list in [aggregated_core(), aggregated_groups()] {
        for group in list["items"].as_array().expect("groups") {
            for version in group["versions"].as_array().expect("versions") {
                kinds += version["resources"].as_array().map_or(0, Vec::len);
            }
        }
    }
    assert_eq!(kinds, kind::served().count());
    let networking = &aggregated_groups()["items"][9];
    assert_eq!(networking["metadata"]["name"], "networking.k8s.io");
    let cidr = &networking["versions"][0]["resources"][3];
    assert_eq!(cidr["scope"], "Cluster");
    assert_eq!(cidr["subresources"][0]["subresource"], "status");
    assert_eq!(
        cidr["responseKind"],
        json!({"group": "networking.k8s.io", "version": "v1", "kind": "ServiceCIDR"})
    );
}

#[test]
fn measured_kinds_are_read_only_and_not_stored() {
    let list = resource_list("metrics.k8s.io", "v1beta1").expect("served group");
    let nodes = json!({"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics",
                       "verbs": ["get", "list"]});
    let pods = json!({"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics",
                      "verbs": ["get", "list"]});
    assert_eq!(list["resources"], json!([nodes, pods]));
}

/// The hashes of kube-apiserver 1.36.2.
#[test]
fn only_stored_kinds_have_a_hash_of_the_stored_version() {
    let hash = |group: &str| resource_list(group, "v1").expect("served group")["resources"][0].clone();
    assert_eq!(hash("events.k8s.io")["storageVersionHash"], "r2yiGXH7wu8=");
    let review = hash("authentication.k8s.io");
    assert_eq!(review.get("storageVersionHash"), None, "{review}");
}
