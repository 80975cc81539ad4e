//! Credentials of registries from the `imagePullSecrets` of a Pod.

use std::collections::BTreeMap;

use ::images::{RegistryCredential, parse_docker_credentials};

use crate::containers::environment::SourceKind;
use crate::object::Pod;
use crate::pods::context::Context;
use crate::pods::events::PodEventRecorder;
use crate::volumes::read_object;

/// Keys of Secrets of the types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`.
const KEYS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// Reads the credentials of a Pod. As upstream's, a Secret that cannot be read is left out: the registry may need none.
pub(crate) async fn of_pod(
    context: &Context,
    pod: &Pod,
    events: &PodEventRecorder,
) -> Vec<RegistryCredential> {
    let mut credentials = Vec::new();
    for secret in &pod.spec.image_pull_secrets {
        let namespace = &pod.metadata.namespace;
        let read = read_object(&context.client, namespace, SourceKind::Secret, &secret.name).await;
        let found = read
            .map_err(|error| error.to_string())
            .and_then(|data| parse(&data));
        match found {
            Ok(found) => credentials.extend(found),
            Err(cause) => {
                let message = format!(
                    "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                    secret.name
                );
                events.warning("FailedToRetrieveImagePullSecret", message);
                tracing::info!(
                    secret = secret.name,
                    namespace,
                    cause,
                    "image pull secret not used"
                );
            }
        }
    }
    credentials
}

fn parse(data: &BTreeMap<String, Vec<u8>>) -> Result<Vec<RegistryCredential>, String> {
    let config = KEYS.iter().find_map(|key| data.get(*key));
    let config = config.ok_or_else(|| format!("expected a key {} or {}", KEYS[0], KEYS[1]))?;
    parse_docker_credentials(config).map_err(|error| error.to_string())
}
