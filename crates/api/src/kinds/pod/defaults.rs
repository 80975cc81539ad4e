//! Defaults of Pods on create and update.

use serde_json::{Value, json};

use super::references::service_account_name;
use super::{ALL_CONTAINER_LISTS, CONTAINER_LISTS, status};
use crate::kinds::condition::complete_conditions;
use crate::machinery::decode::quantity_in_thousandths;
use crate::machinery::empty_values::omit_empty_collections;
use crate::machinery::metadata;
use crate::machinery::tree::{
    child, complete_items, flag_if_set, is_set, items, items_mut, number, object_mut, omit_zero, set, text,
};

const GRACE_PERIOD: &str = "terminationGracePeriodSeconds";
const GRACE_PERIOD_SECONDS_DEFAULT: i64 = 30;
/// Mode of files from ConfigMaps, Secrets and the like.
const FILE_MODE_DEFAULT: i64 = 0o644;
/// Seconds for which a projected token is valid.
const TOKEN_SECONDS_DEFAULT: i64 = 3600;

/// Lists of specs that upstream serializes even if they are empty.
const SERIALIZED_IF_EMPTY: &[&str] = &["containers", "monitors", "nodeSelectorTerms", "sources"];

/// Sets the defaults of a Pod, and drops empty fields.
pub fn default_pod_on_write(pod: &mut Value) {
    metadata::omit_empty(pod);
    object_mut(pod, "spec");
    if let Some(spec) = pod.get_mut("spec") {
        default_spec(spec);
        // As upstream: in Pods only, not in templates.
        if number(spec, GRACE_PERIOD) < 0 {
            set(spec, GRACE_PERIOD, 1);
        }
        default_pod_spec(spec);
    }
    object_mut(pod, "status");
    if let Some(status) = pod.get_mut("status") {
        default_addresses(status);
        status::complete(status);
    }
    complete_conditions(pod, &["lastProbeTime", "lastTransitionTime"]);
}

/// Sets the defaults that a Pod has and a template has not (upstream's `SetDefaults_Pod`).
fn default_pod_spec(spec: &mut Value) {
    set_if_unset(spec, "enableServiceLinks", json!(true));
    let uses_host_network = flag_if_set(spec, "hostNetwork") == Some(true);
    for list in CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            if let Some(resources) = container.get_mut("resources") {
                request_limits(resources);
            }
            if uses_host_network {
                default_host_ports(container);
            }
        }
    }
    if let Some(resources) = spec.get_mut("resources") {
        request_limits(resources);
    }
}

/// Requests the limit of each resource without a request.
fn request_limits(resources: &mut Value) {
    let limits = child(resources, "limits")
        .as_object()
        .cloned()
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = object_mut(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn default_host_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        let number = number(port, "containerPort");
        if number != 0 {
            set_if_unset(port, "hostPort", json!(number));
        }
    }
}

/// Sets the defaults of the spec of a Pod or of a template.
pub(crate) fn default_spec(spec: &mut Value) {
    omit_empty_collections(spec, "io.k8s.api.core.v1.PodSpec", SERIALIZED_IF_EMPTY);
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
    ];
    for (field, value) in defaults {
        set_if_unset(spec, field, value);
    }
    default_service_account(spec);
    if let Some(context) = spec.get_mut("securityContext") {
        complete_items(context, "sysctls", &["name", "value"]);
    }
    for list in ALL_CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            default_container(container);
        }
    }
    if let Some(resources) = spec.get_mut("resources") {
        round_amounts(resources);
    }
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
}

/// Sets both names of the field with the ServiceAccount; the newer one takes precedence.
fn default_service_account(spec: &mut Value) {
    let name = service_account_name(spec).to_owned();
    if !name.is_empty() {
        set(spec, "serviceAccountName", name.as_str());
        set(spec, "serviceAccount", name);
    }
}

/// Rounds amounts up to thousandths (upstream's `SetDefaults_ResourceList`).
fn round_amounts(resources: &mut Value) {
    for list in ["limits", "requests"] {
        let amounts = resources.get_mut(list).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
            let finer = amount.as_str().filter(|amount| amount.ends_with(['n', 'u']));
            if let Some(thousandths) = finer.and_then(quantity_in_thousandths) {
                *amount = if thousandths % 1000 == 0 {
                    json!((thousandths / 1000).to_string())
                } else {
                    json!(format!("{thousandths}m"))
                };
            }
        }
    }
}

/// Sets the defaults of a container.
fn default_container(container: &mut Value) {
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
    if let Some(resources) = container.get_mut("resources") {
        round_amounts(resources);
    }
    set_if_unset(container, "terminationMessagePath", json!("/dev/termination-log"));
    set_if_unset(container, "terminationMessagePolicy", json!("File"));
    let policy = pull_policy(text(container, "image"));
    set_if_unset(container, "imagePullPolicy", json!(policy));
    for port in items_mut(container, "ports") {
        omit_zero(port, &["name", "hostPort", "hostIP", "protocol"]);
        set_if_unset(port, "protocol", json!("TCP"));
    }
    for variable in items_mut(container, "env") {
        omit_zero(variable, &["value"]);
        if let Some(source) = variable.get_mut("valueFrom") {
            default_references(source);
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
            if let Some(sleep) = hook.get_mut("sleep").filter(|sleep| sleep.is_object()) {
                set_if_unset(sleep, "seconds", json!(0));
            }
        }
    }
}

/// Sets the defaults of references to fields and resources, in a variable or in a file of the downward API.
fn default_references(source: &mut Value) {
    for (reference, field, value) in [
        ("fieldRef", "apiVersion", "v1"),
        ("resourceFieldRef", "divisor", "0"),
    ] {
        let reference = source.get_mut(reference);
        if let Some(reference) = reference.filter(|reference| reference.is_object()) {
            set_if_unset(reference, field, json!(value));
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
        complete_items(get, "httpHeaders", &["name", "value"]);
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
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(text(image, "reference"));
        set_if_unset(image, "pullPolicy", json!(policy));
    }
    if let Some(downward) = volume.get_mut("downwardAPI") {
        items_mut(downward, "items")
            .iter_mut()
            .for_each(default_references);
    }
    let projected = volume.get_mut("projected");
    for source in projected
        .into_iter()
        .flat_map(|projected| items_mut(projected, "sources"))
    {
        default_projection(source);
    }
}

fn default_projection(source: &mut Value) {
    if let Some(downward) = source.get_mut("downwardAPI") {
        items_mut(downward, "items")
            .iter_mut()
            .for_each(default_references);
    }
    let token = source.get_mut("serviceAccountToken");
    if let Some(token) = token.filter(|token| token.is_object()) {
        set_if_unset(token, "expirationSeconds", json!(TOKEN_SECONDS_DEFAULT));
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

/// Returns the default pull policy of an image.
fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
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

#[cfg(test)]
mod tests;
