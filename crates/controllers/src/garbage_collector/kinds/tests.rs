use api::object::{ObjectKey, OwnerReference};

use super::{Kind, ObjectLocation};

#[test]
fn all_stored_kinds_except_events_are_collected() {
    let served: Vec<_> = api::kind::all()
        .iter()
        .filter(|row| row.kind != "Event" && row.verbs.contains(&"list") && row.is_stored_form())
        .collect();
    assert_eq!(served.len(), Kind::ALL.len());
    for row in served {
        let kind = Kind::find(&row.api_version(), row.kind).expect(row.kind);
        assert_eq!(kind.is_namespaced(), row.namespaced, "{}", row.kind);
        let is_optional = [api::kind::PORTOLAN_GROUP, api::multicluster::GROUP].contains(&row.group);
        assert_eq!(kind.is_everywhere(), !is_optional, "{}", row.kind);
        let namespace = row.namespaced.then_some("ns");
        let middle = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
        let path = format!("{}/{middle}{}/x", row.root_path(), row.plural);
        assert_eq!(
            ObjectLocation::new(kind, ObjectKey::new(namespace.unwrap_or(""), "x")).path(),
            path
        );
    }
}

#[test]
fn owners_are_in_the_namespace_of_their_dependent_or_cluster_scoped() {
    let owner = |api_version: &str, kind: &str| OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "o".to_owned(),
        ..OwnerReference::default()
    };
    let slice = ObjectLocation::new(Kind::EndpointSlice, ObjectKey::new("ns", "s"));
    let cluster_scoped = ObjectLocation::new(Kind::Node, ObjectKey::new("", "n"));
    let service = ObjectLocation::new(Kind::Service, ObjectKey::new("ns", "o"));
    let node = ObjectLocation::new(Kind::Node, ObjectKey::new("", "o"));
    assert_eq!(slice.of_owner(&owner("v1", "Service")), Some(service));
    assert_eq!(slice.of_owner(&owner("v1", "Node")), Some(node.clone()));
    assert_eq!(cluster_scoped.of_owner(&owner("v1", "Node")), Some(node));
    assert_eq!(cluster_scoped.of_owner(&owner("v1", "Service")), None);
    assert_eq!(slice.of_owner(&owner("apps/v1", "CronJob")), None);
    assert_eq!(slice.of_owner(&owner("v2", "Service")), None);
}

#[test]
fn names_of_owners_add_no_subresource_or_parameter() {
    let owner = |name: &str| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        ..OwnerReference::default()
    };
    let dependent = ObjectLocation::new(Kind::ConfigMap, ObjectKey::new("ns", "c"));
    let path = |name: &str| dependent.of_owner(&owner(name)).map(|location| location.path());
    assert_eq!(path("n1.example").as_deref(), Some("/api/v1/nodes/n1.example"));
    assert_eq!(
        path("n1/proxy/logs/?a=b").as_deref(),
        Some("/api/v1/nodes/n1%2Fproxy%2Flogs%2F%3Fa%3Db")
    );
    assert_eq!(
        path("?watch=true").as_deref(),
        Some("/api/v1/nodes/%3Fwatch%3Dtrue")
    );
}
