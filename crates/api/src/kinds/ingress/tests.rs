use serde_json::json;

use super::*;

fn ingress(rule: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": "web"}, "spec": {"rules": [rule]}})
}

fn rule_with_path(path: &str, path_type: &str) -> Value {
    json!({"host": "example.com", "http": {"paths": [{
        "path": path, "pathType": path_type, "backend": {"service": {"name": "web", "port": {"number": 80}}},
    }]}})
}

fn with_backend(backend: Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": "web"}, "spec": {"defaultBackend": backend}})
}

fn faults(ingress: &Value) -> Vec<String> {
    let errors = validate_ingress(ingress);
    errors
        .into_iter()
        .map(|error| format!("{}: {}", error.path.as_str(), error.message))
        .collect()
}

fn class(spec: Value) -> Value {
    json!({"metadata": {"name": "edge"}, "spec": spec})
}

#[test]
fn accepts_hosts_paths_and_backends() {
    for (path, path_type) in [
        ("/", "Prefix"),
        ("/a/b/", "Exact"),
        ("", "ImplementationSpecific"),
        ("/a//b", "ImplementationSpecific"),
    ] {
        assert!(
            faults(&ingress(rule_with_path(path, path_type))).is_empty(),
            "{path}"
        );
    }
    for host in ["", "example.com", "*.example.com"] {
        assert!(faults(&ingress(json!({"host": host}))).is_empty(), "{host}");
    }
    let resource = json!({"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "static"}});
    for backend in [
        json!({"service": {"name": "web", "port": {"name": "http"}}}),
        resource,
    ] {
        assert!(faults(&with_backend(backend.clone())).is_empty(), "{backend}");
    }
}

#[test]
fn rejects_ambiguous_paths() {
    let path = "spec.rules[0].http.paths[0].path";
    for (value, path_type, fault) in [
        ("a", "Prefix", "must be an absolute path"),
        ("", "Exact", "must be an absolute path"),
        ("a", "ImplementationSpecific", "must be an absolute path"),
        ("/a//b", "Prefix", "must not contain '//'"),
        ("/a/./b", "Exact", "must not contain '/./'"),
        ("/a/../b", "Prefix", "must not contain '/../'"),
        ("/a%2Fb", "Prefix", "must not contain '%2F'"),
        ("/a/..", "Prefix", "cannot end with '/..'"),
        ("/a/.", "Exact", "cannot end with '/.'"),
    ] {
        assert_eq!(
            faults(&ingress(rule_with_path(value, path_type))),
            [format!("{path}: Invalid value: \"{value}\": {fault}")]
        );
    }
}

#[test]
fn requires_a_known_path_type() {
    let mut missing = rule_with_path("/", "Prefix");
    missing["http"]["paths"][0]["pathType"] = Value::Null;
    assert_eq!(
        faults(&ingress(missing)),
        ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]
    );
    assert_eq!(
        faults(&ingress(rule_with_path("/", "Regex"))),
        [
            "spec.rules[0].http.paths[0].pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \
             \"ImplementationSpecific\", \"Prefix\""
        ]
    );
}

#[test]
fn rejects_invalid_hosts() {
    for host in [
        "1.2.3.4",
        "*",
        "*.",
        "a.*.com",
        "*.*.com",
        "Example.com",
        "example.com:80",
    ] {
        let faults = faults(&ingress(json!({"host": host})));
        assert!(
            !faults.is_empty()
                && faults
                    .iter()
                    .all(|fault| fault.starts_with("spec.rules[0].host: ")),
            "{host}: {faults:?}"
        );
    }
}

#[test]
fn rejects_incomplete_and_double_backends() {
    let resource = json!({"kind": "Bucket", "name": "static"});
    for (backend, fault) in [
        (
            json!({}),
            "spec.defaultBackend: Invalid value: \"\": resource or service backend is required",
        ),
        (
            json!({"service": {"name": "web", "port": {"number": 80}}, "resource": resource}),
            "spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends",
        ),
        (
            json!({"service": {"name": "web"}}),
            "spec.defaultBackend: Required value: port name or number is required",
        ),
        (
            json!({"service": {"name": "web", "port": {"name": "http", "number": 80}}}),
            "spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number",
        ),
        (
            json!({"service": {"name": "web", "port": {"number": 65536}}}),
            "spec.defaultBackend.service.port.number: Invalid value: 65536: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"resource": {"kind": "", "name": "static"}}),
            "spec.defaultBackend.resource.kind: Required value",
        ),
        (
            json!({"resource": {"kind": "Bucket", "name": ".."}}),
            "spec.defaultBackend.resource.name: Invalid value: \"..\": may not be '..'",
        ),
    ] {
        assert_eq!(faults(&with_backend(backend)), [fault]);
    }
}

#[test]
fn requires_rules_or_a_default_backend() {
    let empty = json!({"metadata": {"namespace": "default", "name": "web"}, "spec": {}});
    assert_eq!(
        faults(&empty),
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
    );
    assert_eq!(
        faults(&ingress(json!({"http": {"paths": []}}))),
        ["spec.rules[0].http.paths: Required value"]
    );
}

#[test]
fn class_of_annotation_equals_the_field() {
    let mut both = ingress(rule_with_path("/", "Prefix"));
    both["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "one"});
    both["spec"]["ingressClassName"] = json!("one");
    assert!(faults(&both).is_empty());
    assert!(ingress_creation_warnings(&both).is_empty());
    both["spec"]["ingressClassName"] = json!("two");
    assert_eq!(
        faults(&both),
        [
            "annotations.kubernetes.io/ingress.class: Invalid value: \"one\": must match `ingressClassName` when both are \
             specified"
        ]
    );
    assert!(
        validate_ingress_update(&both, &both).is_empty(),
        "only creations compare"
    );
    both["spec"]["ingressClassName"] = Value::Null;
    assert_eq!(ingress_creation_warnings(&both).len(), 1);
}

#[test]
fn update_keeps_the_status_and_counts_specs() {
    let mut old = ingress(rule_with_path("/", "Prefix"));
    old["metadata"]["generation"] = json!(1);
    old["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let mut new = old.clone();
    new["status"] = json!({});
    prepare_ingress_update(&mut new, &old);
    assert_eq!(new, old);
    new["spec"]["rules"][0]["host"] = json!("other.example.com");
    prepare_ingress_update(&mut new, &old);
    assert_eq!(new["metadata"]["generation"], 2);
}

#[test]
fn write_drops_empty_fields() {
    let mut written = ingress(json!({"host": "", "http": {"paths": [
        {"path": "", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"name": "", "number": 80}}}},
    ]}}));
    written["spec"]["tls"] = json!([]);
    default_ingress_on_write(&mut written);
    assert_eq!(
        written["spec"],
        json!({"rules": [{"http": {"paths": [
            {"pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
        ]}}]})
    );
    assert_eq!(written["status"], json!({"loadBalancer": {}}));
}

#[test]
fn class_needs_a_controller_that_stays() {
    let valid = class(json!({"controller": CONTROLLER}));
    assert!(validate_class(&valid).is_empty());
    for controller in ["", "portolan", "portolan.dev/", "/ingress", "portolan.dev/a b"] {
        assert!(
            !validate_class(&class(json!({"controller": controller}))).is_empty(),
            "{controller}"
        );
    }
    let group = json!({"controller": CONTROLLER, "parameters": {"apiGroup": "", "kind": "A", "name": "a", "scope": "Cluster"}});
    let errors = validate_class(&class(group));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path.as_str(), "spec.parameters.apiGroup");
    let errors = validate_class_update(&class(json!({"controller": "example.com/other"})), &valid);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path.as_str(), "spec.controller");
}

#[test]
fn class_parameters_have_a_scope() {
    let with = |parameters: Value| class(json!({"controller": CONTROLLER, "parameters": parameters}));
    let mut written = with(json!({"kind": "Settings", "name": "edge"}));
    default_class_on_write(&mut written);
    assert_eq!(written["spec"]["parameters"]["scope"], "Cluster");
    assert!(validate_class(&written).is_empty());
    for (parameters, path) in [
        (
            json!({"kind": "Settings", "name": "edge", "scope": "Namespace"}),
            "spec.parameters.namespace",
        ),
        (
            json!({"kind": "Settings", "name": "edge", "scope": "Cluster", "namespace": "a"}),
            "spec.parameters.namespace",
        ),
        (
            json!({"kind": "Settings", "name": "edge", "scope": "Other"}),
            "spec.parameters.scope",
        ),
        (
            json!({"kind": "Settings", "scope": "Cluster"}),
            "spec.parameters.name",
        ),
    ] {
        let errors = validate_class(&with(parameters));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].path.as_str(), path);
    }
}
