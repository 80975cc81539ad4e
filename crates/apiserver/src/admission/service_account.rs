//! ServiceAccount: a Pod runs as a ServiceAccount of its namespace, `default` if it names none.

use api::kind;
use api::tree::{child, is_set, items, object_mut, set, text};
use serde_json::Value;
use store::Index;

use crate::failure::Failure;
use crate::route::Target;

/// The ServiceAccount of Pods that name none.
const DEFAULT: &str = "default";
/// The annotation of Pods that an agent runs by itself and only shows; they have no ServiceAccount.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Names the ServiceAccount of a new Pod, which has to exist.
pub(super) fn admit(index: &Index, target: &Target, pod: &mut Value) -> Result<(), Failure> {
    if is_set(child(child(pod, "metadata"), "annotations"), MIRROR) {
        return Ok(());
    }
    let spec = child(pod, "spec");
    // The older name of the field means the same.
    let name = match (text(spec, "serviceAccountName"), text(spec, "serviceAccount")) {
        ("", "") => DEFAULT,
        ("", older) => older,
        (name, _) => name,
    }
    .to_owned();
    let accounts = kind::find("", "v1", "serviceaccounts").ok_or_else(Failure::no_such_path)?;
    let Some(entry) = index.get(&accounts.store_key(target.namespace(), &name)) else {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            target.namespace()
        );
        let pod_name = text(child(pod, "metadata"), "name");
        return Err(Failure::forbidden(target.kind, pod_name, &why));
    };
    object_mut(pod, "spec");
    let Some(spec) = pod.get_mut("spec") else {
        return Ok(());
    };
    set(spec, "serviceAccountName", name.as_str());
    set(spec, "serviceAccount", name);
    let account: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    let secrets = items(&account, "imagePullSecrets");
    if items(spec, "imagePullSecrets").is_empty() && !secrets.is_empty() {
        set(spec, "imagePullSecrets", secrets.to_vec());
    }
    Ok(())
}
