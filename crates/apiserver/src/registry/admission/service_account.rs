//! ServiceAccount: a Pod runs as a ServiceAccount of its namespace, `default` unless it names one. Its containers
//! get a mounted token, unless the Pod or the ServiceAccount opts out.

use api::kind;
use api::pod::{is_mirror, secret_names, service_account_name, token_audiences};
use api::tree::{child, flag_if_set, items, items_mut, object_mut, set, text};
use serde_json::{Value, json};
use store::Index;

use crate::failure::Failure;
use crate::request::route::Target;
use crate::verbs::resource::generate_name;

/// The ServiceAccount of Pods that name none.
const DEFAULT: &str = "default";
/// Mount path of the token (upstream's `DefaultAPITokenMountPath`).
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Name prefix of token volumes.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Lifetime of a token: an hour, and 7 seconds that mark tokens of this plugin (upstream's number).
const TOKEN_SECONDS: u64 = 3_607;

/// Sets the ServiceAccount of a new Pod and mounts its token. The ServiceAccount must exist.
pub(super) fn admit(index: &Index, target: &Target, pod: &mut Value) -> Result<(), Failure> {
    if is_mirror(pod) {
        return admit_mirror(target, pod);
    }
    let name = match service_account_name(child(pod, "spec")) {
        "" => DEFAULT,
        name => name,
    }
    .to_owned();
    let accounts = kind::find("", "v1", "serviceaccounts").ok_or_else(Failure::no_such_path)?;
    let Some(entry) = index.get(&accounts.store_key(target.namespace(), &name)) else {
        let message = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            target.namespace()
        );
        let pod_name = text(child(pod, "metadata"), "name");
        return Err(Failure::forbidden(target.kind, pod_name, &message));
    };
    object_mut(pod, "spec");
    let Some(spec) = pod.get_mut("spec") else {
        return Ok(());
    };
    set(spec, "serviceAccountName", name.as_str());
    set(spec, "serviceAccount", name);
    let account: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    let automount = |object: &Value| flag_if_set(object, "automountServiceAccountToken");
    if automount(spec).or(automount(&account)).unwrap_or(true) {
        mount_token(spec);
    }
    let secrets = items(&account, "imagePullSecrets");
    if items(spec, "imagePullSecrets").is_empty() && !secrets.is_empty() {
        set(spec, "imagePullSecrets", secrets.to_vec());
    }
    Ok(())
}

/// Admits a new mirror Pod of any creator. Mirror Pods give their node no access to ServiceAccounts or Secrets
/// (upstream's `plugin/pkg/admission/serviceaccount/admission.go`).
fn admit_mirror(target: &Target, pod: &Value) -> Result<(), Failure> {
    let spec = child(pod, "spec");
    let message = if !service_account_name(spec).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if !secret_names(spec).is_empty() {
        "a mirror pod may not reference secrets"
    } else if !token_audiences(spec).is_empty() {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(Failure::forbidden(
        target.kind,
        text(child(pod, "metadata"), "name"),
        message,
    ))
}

/// Mounts a volume with token, cluster CA certificate and namespace into each container that has no volume at that
/// path.
fn mount_token(spec: &mut Value) {
    let mut names = items(spec, "volumes").iter().map(|volume| text(volume, "name"));
    let present = names.find(|name| name.starts_with(VOLUME_PREFIX));
    let is_new = present.is_none();
    let name = present.map_or_else(|| generate_name(VOLUME_PREFIX), str::to_owned);
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            let mounts = items(container, "volumeMounts");
            if mounts.iter().any(|mount| text(mount, "mountPath") == TOKEN_PATH) {
                continue;
            }
            let mut mounts = mounts.to_vec();
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            set(container, "volumeMounts", mounts);
            is_needed = true;
        }
    }
    if is_needed && is_new {
        let mut volumes = items(spec, "volumes").to_vec();
        volumes.push(token_volume(&name));
        set(spec, "volumes", volumes);
    }
}

fn token_volume(name: &str) -> Value {
    let namespace =
        json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]}})
}
