//! Defaults of Pods.

use serde_json::{Value, json};

use super::ALL_CONTAINER_LISTS;
use crate::machinery::metadata;
use crate::machinery::tree::{
    child, flag_if_set, is_set, items, items_mut, number, object_mut, omit_zero, set, text,
};

const GRACE_PERIOD: &str = "terminationGracePeriodSeconds";
const GRACE_PERIOD_SECONDS_DEFAULT: i64 = 30;
/// Mode of files from ConfigMaps, Secrets and the like.
const FILE_MODE_DEFAULT: i64 = 0o644;

/// Sets defaults and drops empty fields.
pub fn default_pod_on_write(pod: &mut Value) {
    metadata::omit_empty(pod);
    object_mut(pod, "spec");
    if let Some(spec) = pod.get_mut("spec") {
        default_spec(spec);
        // As upstream: in Pods only, not in templates.
        if number(spec, GRACE_PERIOD) < 0 {
            set(spec, GRACE_PERIOD, 1);
        }
    }
    object_mut(pod, "status");
    if let Some(status) = pod.get_mut("status") {
        default_addresses(status);
    }
}

/// Sets the defaults of the spec of a Pod or of a template.
pub(crate) fn default_spec(spec: &mut Value) {
    omit_zero(
        spec,
        &[
            "volumes",
            "initContainers",
            "ephemeralContainers",
            "restartPolicy",
            "dnsPolicy",
            "nodeSelector",
            "serviceAccountName",
            "nodeName",
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "imagePullSecrets",
            "hostname",
            "subdomain",
            "schedulerName",
            "tolerations",
            "hostAliases",
            "priorityClassName",
            "readinessGates",
        ],
    );
    let defaults = [
        ("restartPolicy", json!("Always")),
        (GRACE_PERIOD, json!(GRACE_PERIOD_SECONDS_DEFAULT)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
    ];
    for (field, value) in defaults {
        set_if_unset(spec, field, value);
    }
    let uses_host_network = flag_if_set(spec, "hostNetwork") == Some(true);
    for list in ALL_CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            default_container(container, uses_host_network);
        }
    }
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value, uses_host_network: bool) {
    omit_zero(
        container,
        &[
            "image",
            "command",
            "args",
            "workingDir",
            "ports",
            "envFrom",
            "env",
            "volumeMounts",
            "stdin",
            "stdinOnce",
            "tty",
        ],
    );
    set_if_unset(container, "resources", json!({}));
    set_if_unset(container, "terminationMessagePath", json!("/dev/termination-log"));
    set_if_unset(container, "terminationMessagePolicy", json!("File"));
    let policy = if is_latest(text(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set_if_unset(container, "imagePullPolicy", json!(policy));
    for port in items_mut(container, "ports") {
        omit_zero(port, &["name", "hostPort", "hostIP", "protocol"]);
        set_if_unset(port, "protocol", json!("TCP"));
        let number = number(port, "containerPort");
        if uses_host_network && number != 0 {
            set_if_unset(port, "hostPort", json!(number));
        }
    }
    for variable in items_mut(container, "env") {
        omit_zero(variable, &["value"]);
        let field_ref = variable
            .get_mut("valueFrom")
            .and_then(|from| from.get_mut("fieldRef"));
        if let Some(field_ref) = field_ref.filter(|field_ref| field_ref.is_object()) {
            set_if_unset(field_ref, "apiVersion", json!("v1"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        let hook = container
            .get_mut("lifecycle")
            .and_then(|lifecycle| lifecycle.get_mut(hook));
        if let Some(hook) = hook.filter(|hook| hook.is_object()) {
            default_http_get(hook);
        }
    }
}

fn default_probe(probe: &mut Value) {
    omit_zero(
        probe,
        &[
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ],
    );
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        set_if_unset(probe, field, json!(value));
    }
    default_http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        set_if_unset(grpc, "service", json!(""));
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        omit_zero(get, &["path", "scheme", "host", "httpHeaders"]);
        set_if_unset(get, "path", json!("/"));
        set_if_unset(get, "scheme", json!("HTTP"));
    }
}

fn default_volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|fields| {
        fields
            .iter()
            .any(|(field, source)| field != "name" && !source.is_null())
    });
    if !has_source {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            set_if_unset(source, "defaultMode", json!(FILE_MODE_DEFAULT));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        set_if_unset(path, "type", json!(""));
    }
}

/// Sets `podIP` to the first of `podIPs`, and `podIPs` if the client set `podIP` only.
fn default_addresses(status: &mut Value) {
    omit_zero(status, &["podIP", "podIPs"]);
    let listed = items(status, "podIPs")
        .first()
        .map(|entry| text(entry, "ip").to_owned())
        .unwrap_or_default();
    let single = text(status, "podIP").to_owned();
    if single.is_empty() && !listed.is_empty() {
        set(status, "podIP", listed);
    } else if !single.is_empty() && listed != single {
        set(status, "podIPs", json!([{"ip": single}]));
    }
}

/// Returns true for an image with the tag `latest` or none, which is pulled at each start.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains('@') {
        return false;
    }
    match name.rsplit_once(':') {
        Some((_, tag)) => tag == "latest",
        None => true,
    }
}

fn set_if_unset(tree: &mut Value, field: &str, value: Value) {
    let is_empty = text(tree, field).is_empty() && child(tree, field).is_string();
    if !is_set(tree, field) || is_empty && value.is_string() {
        set(tree, field, value);
    }
}
