//! The expectations are warnings of kube-apiserver 1.36.2.

use serde_json::{Value, json};

use super::{name_warnings, pod_creation_warnings, pod_status_warnings, template_warnings};

fn warnings(spec: Value) -> Vec<String> {
    pod_creation_warnings(&json!({"metadata": {"name": "p"}, "spec": spec}))
}

#[test]
fn ordinary_pods_have_no_warnings() {
    let container = json!({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
        "resources": {"limits": {"memory": "1Gi", "cpu": "100m"}}});
    let spec = json!({"containers": [container], "nodeSelector": {"kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": 30, "hostAliases": [{"ip": "192.0.2.1"}]});
    assert_eq!(warnings(spec), Vec::<String>::new());
}

#[test]
fn fields_of_the_spec_cause_warnings() {
    let spec = json!({
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [{"topologyKey": "z"}],
        "volumes": [{"name": "v", "projected": {"sources": [{}]}}, {"name": "g", "gitRepo": {"repository": "x"}}],
        "hostAliases": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}],
        "imagePullSecrets": [{"name": ""}, {"name": "a"}, {"name": "a"}],
    });
    assert_eq!(
        warnings(spec),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "volume \"v\" (Projected) has no sources provided",
            "spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.hostAliases[1].ip: duplicate ip \"192.0.2.1\"",
            "spec.imagePullSecrets[0].name: invalid empty name \"\"",
            "spec.imagePullSecrets[2].name: duplicate name \"a\"",
        ]
    );
}

#[test]
fn terms_without_a_label_selector_cause_warnings() {
    let terms = json!([{"topologyKey": "zone"}, {"topologyKey": "zone", "labelSelector": {}}]);
    let preferred = json!([{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]);
    let spec = json!({"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
    }});
    let detail = "labelSelector: a null labelSelector results in matching no pod";
    assert_eq!(
        warnings(spec),
        [
            format!("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].{detail}"),
            format!(
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.{detail}"
            ),
        ]
    );
}

#[test]
fn fields_of_containers_cause_warnings() {
    let spec = json!({"containers": [{"name": "c",
        "resources": {"limits": {"memory": "100m"}},
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]}]});
    assert_eq!(
        warnings(spec),
        [
            "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ]
    );
}

#[test]
fn annotations_and_names_cause_warnings() {
    let pod = json!({"metadata": {"name": "a.b", "annotations": {
        "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
        "scheduler.alpha.kubernetes.io/critical-pod": ""}}, "spec": {"containers": [{"name": "c"}]}});
    assert_eq!(
        pod_creation_warnings(&pod),
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead",
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead",
        ]
    );
    let use_of_name = "Pod names and hostnames";
    assert_eq!(name_warnings(&pod, use_of_name).len(), 1);
    assert!(name_warnings(&json!({"metadata": {"name": "web"}}), use_of_name).is_empty());
}

#[test]
fn warnings_about_templates_have_the_path_of_the_template() {
    let workload = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -5}}}});
    assert_eq!(
        template_warnings(&workload),
        [
            "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ]
    );
}

#[test]
fn addresses_of_a_status_that_are_not_canonical_cause_warnings() {
    let pod = json!({"status": {
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:DB8::1"}],
        "hostIPs": [{"ip": "010.0.0.1"}],
    }});
    let warnings = pod_status_warnings(&pod);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with("status.podIPs[1].ip: IPv6 address "),
        "{warnings:?}"
    );
    assert!(
        warnings[1].starts_with("status.hostIPs[0].ip: non-standard IP address "),
        "{warnings:?}"
    );
}
