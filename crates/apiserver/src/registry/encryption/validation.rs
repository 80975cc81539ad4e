//! Upstream's validation of an `EncryptionConfiguration`, with its messages (`validation/validation_encryption.go`).

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
/// Portolan's own message: KMS plugins are not supported.
const NO_KMS: &str = "kms providers are not supported; use aescbc, aesgcm, secretbox or identity";
/// Replacement of keys in messages.
const REDACTED: &str = "REDACTED";

/// Returns the violations in a file.
pub(super) fn validate(file: &ConfigurationFile) -> Vec<FieldError> {
    let root = Path::new("resources");
    if file.resources.is_empty() {
        return vec![required_field(&root, "resources")];
    }
    let mut errors = Vec::new();
    for (number, element) in file.resources.iter().enumerate() {
        let resources = root.index(number).child("resources");
        let providers = root.index(number).child("providers");
        if element.resources.is_empty() {
            errors.push(required_field(&resources, resources.as_str()));
        }
        errors.extend(overlaps(&element.resources, &resources));
        let names = element.resources.iter().enumerate();
        errors.extend(names.filter_map(|(number, name)| {
            let message = validate_name(name)?;
            Some(FieldError::invalid(
                &resources.index(number),
                name.as_str(),
                message,
            ))
        }));
        if element.providers.is_empty() {
            errors.push(required_field(&providers, providers.as_str()));
        }
        for (number, provider) in element.providers.iter().enumerate() {
            errors.extend(validate_provider(provider, &providers.index(number)));
        }
    }
    errors
}

/// Joins errors into one message, as upstream.
pub(super) fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Decodes a key; `None` if it is not base64.
pub(super) fn secret(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(text).ok().map(Zeroizing::new)
}

fn required_field(path: &Path, field: &str) -> FieldError {
    FieldError::required(path, format!("at least one {field} is required"))
}

fn overlaps(names: &[String], path: &Path) -> Vec<FieldError> {
    let parsed: Vec<GroupResource> = names.iter().map(|name| GroupResource::parse(name)).collect();
    let pairs = || {
        let firsts = parsed.iter().enumerate();
        firsts.flat_map(|(index, first)| parsed.iter().skip(index + 1).map(move |second| (first, second)))
    };
    let is_all = |resource: &GroupResource| *resource == GroupResource::all();
    let overlap = |(first, second): (&GroupResource, &GroupResource)| {
        let has_star = first.resource == "*" || second.resource == "*";
        first != second && (is_all(first) || is_all(second) || (first.group == second.group && has_star))
    };
    let mut errors = Vec::new();
    if pairs().any(|(first, second)| first == second) {
        errors.push(FieldError::invalid(path, json!(names), DUPLICATE));
    }
    if pairs().any(overlap) {
        errors.push(FieldError::invalid(path, json!(names), OVERLAP));
    }
    errors
}

fn validate_name(name: &str) -> Option<&'static str> {
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

fn validate_provider(provider: &ProviderFile, path: &Path) -> Vec<FieldError> {
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
        return vec![required_field(&path, "keys")];
    }
    let keys = file.keys.iter().enumerate();
    keys.flat_map(|(number, key)| validate_key(key, algorithm, &path.index(number)))
        .collect()
}

fn validate_key(key: &KeyFile, algorithm: Algorithm, path: &Path) -> Vec<FieldError> {
    let mandatory = |field: &str| {
        FieldError::required(
            &path.child(field),
            format!("{field} is a mandatory field for a key"),
        )
    };
    let mut errors = Vec::new();
    if key.name.is_empty() {
        errors.push(mandatory("name"));
    }
    if key.secret.is_empty() {
        errors.push(mandatory("secret"));
        return errors;
    }
    let path = path.child("secret");
    let lengths = algorithm.key_bytes();
    match secret(&key.secret) {
        None => errors.push(FieldError::invalid(&path, REDACTED, NOT_BASE64)),
        Some(octets) if !lengths.contains(&octets.len()) => {
            let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
            errors.push(FieldError::invalid(
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
    errors
}
