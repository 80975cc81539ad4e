//! Upstream's rules for an `EncryptionConfiguration`, with its messages (`validation/validation_encryption.go`).

use api::field::{FieldError, Path};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use zeroize::Zeroizing;

use super::configuration::{ConfigurationFile, GroupResource, KeyFile, ProviderFile};
use super::provider::Algorithm;

const SEVERAL_PROVIDERS: &str =
    "more than one provider specified in a single element, should split into different list elements";
const NO_PROVIDER: &str =
    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
const NOT_BASE64: &str = "secrets must be base64 encoded";
const EVENTS_GROUP: &str = "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file";
const EXTENSIONS_GROUP: &str = "'extensions' group has been removed and cannot be used for encryption";
const STAR: &str =
    "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources";
const OVERLAP: &str = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
const NO_REST_API: &str = "resources which do not have REST API/s cannot be encrypted";
const CAPITALS: &str = "resource name should not contain capital letters";
const ACROSS_GROUPS: &str = "encrypting the same resource across groups is not supported";
const DUPLICATE: &str = "the same resource cannot be specified multiple times";
/// Not upstream's: nothing here speaks to a KMS plugin.
const NO_KMS: &str = "kms providers are not supported; use aescbc, aesgcm, secretbox or identity";
/// Shown in the place of keys.
const REDACTED: &str = "REDACTED";

/// Violations of the validation rules in a file.
pub(super) fn faults(file: &ConfigurationFile) -> Vec<FieldError> {
    let root = Path::new("resources");
    if file.resources.is_empty() {
        return vec![required(&root, "resources")];
    }
    let mut faults = Vec::new();
    for (number, element) in file.resources.iter().enumerate() {
        let resources = root.index(number).child("resources");
        let providers = root.index(number).child("providers");
        if element.resources.is_empty() {
            faults.push(required(&resources, resources.as_str()));
        }
        faults.extend(overlaps(&element.resources, &resources));
        let names = element.resources.iter().enumerate();
        faults.extend(names.filter_map(|(number, name)| {
            let fault = name_fault(name)?;
            Some(FieldError::invalid(
                &resources.index(number),
                name.as_str(),
                fault,
            ))
        }));
        if element.providers.is_empty() {
            faults.push(required(&providers, providers.as_str()));
        }
        for (number, provider) in element.providers.iter().enumerate() {
            faults.extend(provider_faults(provider, &providers.index(number)));
        }
    }
    faults
}

/// Several faults as one message, as upstream joins them.
pub(super) fn aggregate(faults: &[FieldError]) -> String {
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The octets of a key's secret; `None` if it is no base64.
pub(super) fn secret(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(text).ok().map(Zeroizing::new)
}

fn required(path: &Path, what: &str) -> FieldError {
    FieldError::required(path, format!("at least one {what} is required"))
}

fn overlaps(names: &[String], path: &Path) -> Vec<FieldError> {
    let parsed: Vec<GroupResource> = names.iter().map(|name| GroupResource::parse(name)).collect();
    let pairs = || {
        let firsts = parsed.iter().enumerate();
        firsts.flat_map(|(at, first)| parsed.iter().skip(at + 1).map(move |second| (first, second)))
    };
    let is_all = |resource: &GroupResource| *resource == GroupResource::all();
    let overlap = |(first, second): (&GroupResource, &GroupResource)| {
        let has_star = first.resource == "*" || second.resource == "*";
        first != second && (is_all(first) || is_all(second) || (first.group == second.group && has_star))
    };
    let mut faults = Vec::new();
    if pairs().any(|(first, second)| first == second) {
        faults.push(FieldError::invalid(path, json!(names), DUPLICATE));
    }
    if pairs().any(overlap) {
        faults.push(FieldError::invalid(path, json!(names), OVERLAP));
    }
    faults
}

fn name_fault(name: &str) -> Option<&'static str> {
    const WITHOUT_REST_API: [&str; 3] = [
        "apiserveripinfo",
        "serviceipallocations",
        "servicenodeportallocations",
    ];
    let parsed = GroupResource::parse(name);
    if name.to_lowercase() != name {
        Some(CAPITALS)
    } else if name == "*" {
        Some(STAR)
    } else if WITHOUT_REST_API.contains(&name) {
        Some(NO_REST_API)
    } else if parsed.group == "events.k8s.io" {
        Some(EVENTS_GROUP)
    } else if parsed.group == "extensions" {
        Some(EXTENSIONS_GROUP)
    } else if parsed.group == "*" && parsed.resource != "*" {
        Some(ACROSS_GROUPS)
    } else {
        None
    }
}

fn provider_faults(provider: &ProviderFile, path: &Path) -> Vec<FieldError> {
    let others = usize::from(provider.identity.is_some()) + usize::from(provider.kms.is_some());
    match provider.with_keys().count() + others {
        0 => return vec![FieldError::invalid(path, json!({}), NO_PROVIDER)],
        1 => {}
        _ => return vec![FieldError::invalid(path, REDACTED, SEVERAL_PROVIDERS)],
    }
    if provider.kms.is_some() {
        return vec![FieldError::forbidden(&path.child("kms"), NO_KMS)];
    }
    let Some((name, algorithm, file)) = provider.with_keys().next() else {
        return Vec::new();
    };
    let path = path.child(name).child("keys");
    if file.keys.is_empty() {
        return vec![required(&path, "keys")];
    }
    let keys = file.keys.iter().enumerate();
    keys.flat_map(|(number, key)| key_faults(key, algorithm, &path.index(number)))
        .collect()
}

fn key_faults(key: &KeyFile, algorithm: Algorithm, path: &Path) -> Vec<FieldError> {
    let mandatory = |field: &str| {
        FieldError::required(
            &path.child(field),
            format!("{field} is a mandatory field for a key"),
        )
    };
    let mut faults = Vec::new();
    if key.name.is_empty() {
        faults.push(mandatory("name"));
    }
    if key.secret.is_empty() {
        faults.push(mandatory("secret"));
        return faults;
    }
    let path = path.child("secret");
    let lengths = algorithm.key_octets();
    match secret(&key.secret) {
        None => faults.push(FieldError::invalid(&path, REDACTED, NOT_BASE64)),
        Some(octets) if !lengths.contains(&octets.len()) => {
            let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            faults.push(FieldError::invalid(
                &path,
                REDACTED,
                format!(
                    "secret is not of the expected length, got {}, expected one of [{}]",
                    octets.len(),
                    lengths.join(" ")
                ),
            ));
        }
        Some(_) => {}
    }
    faults
}
