use api::object::Service;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::object::ResourceFieldRef;

#[derive(Deserialize)]
struct Recorded {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    services: Vec<Service>,
    environment: Variables,
}

fn service(namespace: &str, name: &str, cluster_ip: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterIP": cluster_ip, "ports": [{"port": 80, "protocol": "TCP"}]},
    }))
    .unwrap()
}

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "x"}},
        "spec": spec,
    }))
    .unwrap()
}

/// ENV-11: the environment is that of the moment at which it is computed, the start of the container.
#[test]
fn matches_recorded_environments() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/env.json");
    let recorded: Recorded = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(recorded.cases.len(), 15);
    for case in recorded.cases {
        assert_eq!(service_variables(&case.services), case.environment, "{}", case.id);
    }
}

#[test]
fn visible_services_are_of_the_namespace_and_kubernetes() {
    let services = [
        service("default", "kubernetes", "10.0.0.1"),
        service("default", "other", "10.0.0.2"),
        service("shop", "web", "10.0.0.3"),
        service("shop", "headless", "None"),
    ];
    let names = |visible: Vec<&Service>| -> Vec<String> {
        visible
            .iter()
            .map(|service| service.metadata.name.clone())
            .collect()
    };
    assert_eq!(
        names(visible_services(&services, "shop", true)),
        ["kubernetes", "web"]
    );
    assert_eq!(names(visible_services(&services, "shop", false)), ["kubernetes"]);
}

#[test]
fn own_kubernetes_service_overrides_default_with_links() {
    let services = [
        service("shop", "kubernetes", "10.0.0.9"),
        service("default", "kubernetes", "10.0.0.1"),
    ];
    let address = |on| visible_services(&services, "shop", on)[0].spec.cluster_ip.clone();
    assert_eq!(address(true), "10.0.0.9");
    assert_eq!(address(false), "10.0.0.1");
}

#[test]
fn expands_references_and_escapes() {
    let value_of = |name: &str| (name == "A").then_some("1");
    for (text, expected) in [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B)", "$(B)"),
        ("$(A", "$(A"),
        ("$(A)$(A", "1$(A"),
        (")$(A", ")$(A"),
        ("$A $", "$A $"),
        ("", ""),
    ] {
        assert_eq!(expand(text, 100, value_of).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn unclosed_references_are_expanded_in_linear_time() {
    let text = "$(".repeat(700_000);
    // The search for the end of each reference would take minutes.
    assert_eq!(expand(&text, BYTES_MAX, |_| None), Some(text.clone()));
}

#[test]
fn own_variables_override_and_refer_to_services() {
    let pod = pod(json!({"containers": [{"name": "c", "env": [
        {"name": "HOST", "value": "$(WEB_SERVICE_HOST):80"},
        {"name": "URL", "value": "http://$(HOST)/$(LATER)"},
        {"name": "LATER", "value": "x"},
        {"name": "WEB_SERVICE_PORT", "value": "mine"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
    ]}]}));
    let facts = PodFacts {
        host_ips: vec![],
        pod_ips: vec!["10.1.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
        capacity: Capacity {
            cpus: 2,
            memory_bytes: 4 << 30,
        },
    };
    let services = service_variables(&[service("shop", "web", "10.0.0.3")]);
    let made =
        container_variables(&pod, &pod.spec.containers[0], &facts, &services, &Sources::new()).unwrap();
    assert_eq!(made["URL"], "http://10.0.0.3:80/$(LATER)");
    assert_eq!(made["WEB_SERVICE_PORT"], "mine");
    assert_eq!(made["WEB_SERVICE_HOST"], "10.0.0.3");
    assert_eq!((&*made["NAME"], &*made["APP"]), ("web", "x"));
    assert_eq!(made["IPS"], "10.1.0.2,fd00::2");
    assert_eq!(made["HOSTNAME"], "web");
}

#[test]
fn reads_keys_of_config_maps_and_secrets() {
    let pod = pod(json!({"containers": [{"name": "c",
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "all"}}, {"secretRef": {"name": "gone", "optional": true}}],
    "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "all", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k", "optional": true}}},
    ]}]}));
    let container = &pod.spec.containers[0];
    let found = Variables::from([("k".to_owned(), "v".to_owned())]);
    let sources = Sources::from([((SourceKind::ConfigMap, "all".to_owned()), found)]);
    let make =
        |sources| container_variables(&pod, container, &PodFacts::default(), &Variables::new(), sources);
    let made = make(&sources).unwrap();
    assert_eq!((&*made["A"], &*made["P_k"]), ("v", "v"));
    assert!(!made.contains_key("B"));
    assert!(matches!(
        make(&Sources::new()),
        Err(EnvironmentError::Source { .. })
    ));
    assert_eq!(referenced_sources(container).count(), 4);
}

#[test]
fn divides_resources_by_their_divisor() {
    let pod: Pod = serde_json::from_value(serde_json::json!({"spec": {"containers": [
        {"name": "a", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}}, {"name": "b"}]}}))
    .unwrap();
    let facts = PodFacts {
        capacity: Capacity {
            cpus: 2,
            memory_bytes: 4 << 30,
        },
        ..PodFacts::default()
    };
    let value = |name: &str, resource: &str, divisor: &str| {
        let reference = ResourceFieldRef {
            container_name: name.to_owned(),
            resource: resource.to_owned(),
            divisor: divisor.to_owned(),
        };
        resource_field(&reference, &pod, pod.spec.containers.first(), &facts)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(value("", "limits.cpu", ""), some("2"));
    assert_eq!(value("a", "limits.cpu", "1m"), some("1500"));
    assert_eq!(value("a", "requests.memory", "1Mi"), some("64"));
    assert_eq!(value("b", "limits.memory", "1Gi"), some("4"));
    assert_eq!(value("b", "requests.cpu", "0"), some("0"));
    assert_eq!(value("c", "limits.cpu", ""), None);
    assert_eq!(value("a", "cpu", ""), None);
}

/// Returns the variables of a container with the ConfigMap `c`, which has a value of 100 KiB.
fn variables_of(spec: serde_json::Value) -> Result<Variables, EnvironmentError> {
    let pod = pod(json!({"containers": [spec]}));
    let values = Variables::from([("k".to_owned(), "x".repeat(100 << 10))]);
    let sources = Sources::from([((SourceKind::ConfigMap, "c".to_owned()), values)]);
    let facts = PodFacts::default();
    container_variables(&pod, &pod.spec.containers[0], &facts, &Variables::new(), &sources)
}

#[test]
fn variables_that_multiply_each_other_are_rejected() {
    let ten = |name: &str| format!("$({name})").repeat(10);
    let mut variables = vec![json!({"name": "V0", "value": "0123456789"})];
    let of = |variables: &[serde_json::Value]| variables_of(json!({"name": "a", "env": variables}));
    variables.extend(
        (1..5).map(|number| json!({"name": format!("V{number}"), "value": ten(&format!("V{}", number - 1))})),
    );
    assert_eq!(of(&variables).unwrap()["V4"].len(), 100_000);
    // Ten more would have 10^16 bytes.
    variables.extend(
        (5..15)
            .map(|number| json!({"name": format!("V{number}"), "value": ten(&format!("V{}", number - 1))})),
    );
    assert_eq!(of(&variables), Err(EnvironmentError::TooLarge));
}

#[test]
fn values_of_objects_that_a_container_repeats_are_bounded() {
    let key = json!({"configMapKeyRef": {"name": "c", "key": "k"}});
    let of_keys = |count: usize| {
        let variables: Vec<_> = (0..count)
            .map(|number| json!({"name": format!("V{number}"), "valueFrom": key}))
            .collect();
        variables_of(json!({"name": "a", "env": variables}))
    };
    assert_eq!(of_keys(50).unwrap().len(), 52);
    assert_eq!(of_keys(100), Err(EnvironmentError::TooLarge));
    let sources: Vec<_> = (0..100)
        .map(|number| json!({"prefix": format!("P{number}"), "configMapRef": {"name": "c"}}))
        .collect();
    let all = variables_of(json!({"name": "a", "envFrom": sources}));
    assert_eq!(all, Err(EnvironmentError::TooLarge));
}

#[test]
fn words_of_a_command_are_bounded_together() {
    let variables = Variables::from([("V".to_owned(), "x".repeat(100 << 10))]);
    let words = |count: usize| vec!["-$(V)".to_owned(); count];
    assert_eq!(
        expand_words(&words(2), &variables).unwrap()[1].len(),
        (100 << 10) + 1
    );
    assert_eq!(
        expand_words(&words(100), &variables),
        Err(EnvironmentError::TooLarge)
    );
}
