//! Shape of the objects: the types of Kubernetes, references between objects, and rights.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{SERVER, VARIANTS, error, find, objects};

/// Decodes an object as a type of Kubernetes and encodes the result. Fields that the type does not have are lost.
fn through<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).expect("an object of this type");
    serde_json::to_value(typed).expect("JSON")
}

#[test]
fn objects_have_the_fields_of_their_types() {
    for object in VARIANTS.iter().flat_map(|arguments| objects(arguments)) {
        let decoded = match object["kind"].as_str().expect("a kind") {
            "ClusterRole" => through::<ClusterRole>(&object),
            "ClusterRoleBinding" => through::<ClusterRoleBinding>(&object),
            "ConfigMap" => through::<ConfigMap>(&object),
            "DaemonSet" => through::<DaemonSet>(&object),
            "Deployment" => through::<Deployment>(&object),
            "Namespace" => through::<Namespace>(&object),
            "NetworkPolicy" => through::<NetworkPolicy>(&object),
            "PodDisruptionBudget" => through::<PodDisruptionBudget>(&object),
            "Role" => through::<Role>(&object),
            "RoleBinding" => through::<RoleBinding>(&object),
            "Service" => through::<Service>(&object),
            "ServiceAccount" => through::<ServiceAccount>(&object),
            // The tests of the crate `balancer` compare the definition with the kind.
            "CustomResourceDefinition" | "AddressPool" => continue,
            kind => panic!("add a type for {kind}"),
        };
        assert_eq!(decoded, object);
    }
}

#[test]
fn first_pool_has_the_fields_of_its_kind() {
    let objects = objects(VARIANTS[7]);
    let pool = find(&objects, "AddressPool", "default");
    let schema = api::schema::schema();
    let spec = schema
        .find("dev.portolan.v1alpha1.AddressPoolSpec")
        .expect("a definition");
    for name in pool["spec"].as_object().expect("a spec").keys() {
        assert!(spec.fields().iter().any(|field| field.name == name), "{name}");
    }
    assert_eq!(pool["spec"]["interfaces"][1], "en*");
}

#[test]
fn selectors_match_the_labels_of_pods() {
    let objects: Vec<Value> = VARIANTS.iter().flat_map(|arguments| objects(arguments)).collect();
    let labels = |object: &Value| {
        object["spec"]["template"]["metadata"]["labels"]
            .as_object()
            .cloned()
    };
    let pods: Vec<_> = objects.iter().filter_map(labels).collect();
    for object in &objects {
        let spec = &object["spec"];
        let selectors = [
            &spec["selector"]["matchLabels"],
            &spec["podSelector"]["matchLabels"],
        ];
        let service = if object["kind"] == "Service" {
            &spec["selector"]
        } else {
            &Value::Null
        };
        for selector in selectors
            .into_iter()
            .chain([service])
            .filter_map(Value::as_object)
        {
            let selects = |pod: &serde_json::Map<String, Value>| {
                selector.iter().all(|(key, value)| pod.get(key) == Some(value))
            };
            assert!(
                pods.iter().any(selects),
                "{} {} selects no Pod",
                object["kind"],
                object["metadata"]["name"]
            );
        }
    }
}

#[test]
fn bindings_name_roles_and_accounts_of_the_output() {
    for arguments in VARIANTS {
        let objects = objects(arguments);
        for binding in objects.iter().filter(|object| object.get("roleRef").is_some()) {
            let role = &binding["roleRef"]["name"];
            let is_named = |object: &&Value| {
                let metadata = &object["metadata"];
                let is_in_reach = object["kind"] == "ClusterRole"
                    || metadata["namespace"] == binding["metadata"]["namespace"];
                object["kind"] == binding["roleRef"]["kind"] && metadata["name"] == *role && is_in_reach
            };
            let is_built_in = role.as_str().expect("a name").starts_with("system:");
            assert_eq!(
                objects.iter().filter(is_named).count(),
                usize::from(!is_built_in),
                "{role}"
            );
            let subject = &binding["subjects"][0];
            let account = find(
                &objects,
                "ServiceAccount",
                subject["name"].as_str().expect("a name"),
            );
            assert_eq!(account["metadata"]["namespace"], subject["namespace"]);
        }
    }
}

/// Page with the rules of the built-in roles, which the crate `apiserver` generates.
const IDENTITIES: &str = include_str!("../../../../../../docs/identities.md");

/// Returns pairs of verb and resource of a ClusterRole of the output.
fn granted(objects: &[Value], name: &str) -> BTreeSet<(String, String)> {
    let list = |value: &Value| -> Vec<String> {
        let values = value.as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let role = find(objects, "ClusterRole", name);
    let mut found = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        for resource in list(&rule["resources"]) {
            found.extend(
                list(&rule["verbs"])
                    .into_iter()
                    .map(|verb| (verb, resource.clone())),
            );
        }
    }
    found
}

/// Returns pairs of verb and resource of a built-in role.
fn built_in(role: &str) -> BTreeSet<(String, String)> {
    let start = format!("| `{role}` | ");
    let mut found = BTreeSet::new();
    for line in IDENTITIES.lines().filter_map(|line| line.strip_prefix(&start)) {
        let (verbs, resources) = line.split_once(" | ").expect("a row with verbs and resources");
        for resource in resources.split('`').skip(1).step_by(2) {
            found.extend(
                verbs
                    .split(", ")
                    .map(|verb| (verb.to_owned(), resource.to_owned())),
            );
        }
    }
    found
}

#[test]
fn rights_are_at_most_those_of_the_built_in_roles() {
    let set = ["multicluster", "--cluster-id=east", "--clusterset=west"];
    let objects = objects(&[&["all", "node-local-dns", SERVER][..], &set[..]].concat());
    for (name, role) in [
        (
            "portolan-multicluster",
            "system:controller:multicluster-service-controller",
        ),
        ("portolan-clusterset", "portolan:clusterset-reader"),
        ("portolan-proxy", "system:node-proxier"),
        ("portolan-dns", "system:coredns"),
        ("portolan-node-local-dns", "system:coredns"),
        ("portolan-assigner", "system:controller:service-controller"),
        ("portolan-announcer", "system:portolan-announcer"),
    ] {
        let granted = granted(&objects, name);
        assert!(!granted.is_empty(), "{name}");
        let beyond: Vec<_> = granted.difference(&built_in(role)).cloned().collect();
        assert!(
            beyond.is_empty(),
            "{name} has more rights than {role}: {beyond:?}"
        );
    }
}

#[test]
fn roles_cannot_read_all_secrets() {
    for object in VARIANTS.iter().flat_map(|arguments| objects(arguments)) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            assert!(!text.contains("\"*\""), "{text}");
            assert!(
                !text.contains("secrets") || rule.get("resourceNames").is_some(),
                "{text}"
            );
        }
    }
}

#[test]
fn objects_of_metallb_are_read_in_a_take_over_only() {
    let rules_of_metallb = |arguments: &[&str]| -> Vec<String> {
        let objects = objects(arguments);
        let roles = objects
            .iter()
            .filter(|object| object["metadata"]["namespace"] == "metallb-system");
        roles
            .filter(|object| object["kind"] == "Role")
            .map(|role| role["rules"].to_string())
            .collect()
    };
    let ignores = |arguments: &[&str]| {
        let objects = objects(arguments);
        find(&objects, "Deployment", "portolan-assigner")
            .to_string()
            .contains("--metallb-namespace=")
    };
    assert!(ignores(&["balancer", SERVER]) && rules_of_metallb(&["balancer", SERVER]).is_empty());
    assert!(!ignores(VARIANTS[8]));
    let rules = rules_of_metallb(VARIANTS[8]);
    assert_eq!(rules.len(), 2);
    assert!(
        rules.iter().all(|rules| rules.contains("ipaddresspools")),
        "{rules:?}"
    );
}

#[test]
fn announcers_speak_bgp_in_a_take_over_from_metallb() {
    let objects = objects(&["balancer", SERVER, "--takeover-from=metallb", "--bgp"]);
    let daemon_set = find(&objects, "DaemonSet", "portolan-announcer").to_string();
    assert!(daemon_set.contains("\"--bgp\"") && daemon_set.contains("NET_BIND_SERVICE"));
    let mut roles = objects
        .iter()
        .filter(|object| object["kind"] == "Role" && object["metadata"]["namespace"] == "metallb-system");
    assert!(roles.any(|role| role["rules"].to_string().contains("servicebgpstatuses/status")));
    assert!(error(&["balancer", SERVER, "--bgp"]).contains("--takeover-from=metallb"));
}

#[test]
fn take_over_from_coredns_keeps_the_service() {
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let objects = objects(arguments);
        objects
            .iter()
            .map(|object| object["kind"].as_str().expect("a kind").to_owned())
            .collect()
    };
    assert!(kinds(&["dns"]).contains(&"Service".to_owned()));
    assert!(!kinds(&["dns", "--takeover-from=coredns"]).contains(&"Service".to_owned()));
}

#[test]
fn dns_stays_in_the_namespace_of_its_service() {
    let objects = objects(VARIANTS[1]);
    let namespace = |kind, name| find(&objects, kind, name)["metadata"]["namespace"].clone();
    assert_eq!(
        namespace("Deployment", "portolan-dns"),
        namespace("Service", "kube-dns")
    );
    assert_eq!(namespace("DaemonSet", "portolan-proxy"), "portolan");
    find(&objects, "Namespace", "portolan");
}

#[test]
fn service_has_the_families_of_its_addresses() {
    let service = |arguments: &[&str]| find(&objects(arguments), "Service", "kube-dns")["spec"].clone();
    let single = service(&["dns", "--cluster-dns=fd00::a"]);
    assert_eq!(
        (&single["ipFamilies"][0], &single["ipFamilyPolicy"]),
        (&"IPv6".into(), &"SingleStack".into())
    );
    let dual = service(VARIANTS[5]);
    assert_eq!(dual["ipFamilies"].as_array().map(Vec::len), Some(2));
    assert_eq!(dual["ipFamilyPolicy"], "RequireDualStack");
}
