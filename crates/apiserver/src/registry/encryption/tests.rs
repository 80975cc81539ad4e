//! Tests of stored forms, rule selection and validation messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use store::{SqliteOptions, SqliteStore, Store as _, Transaction, Write};

use super::*;

const KEY: &str = "/secrets/default/token";
const AES: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="; // 0123456789abcdef, twice
const OTHER: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

fn configuration(resources: &str, providers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [{resources}]\n  providers: [{providers}]\n"
    )
}

fn keys(provider: &str, keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}"))
        .collect();
    format!("{provider}: {{keys: [{}]}}", keys.join(", "))
}

fn element(provider: &str) -> String {
    format!("{{{provider}}}")
}

struct Configured {
    encryption: Encryption,
    file: tempfile::NamedTempFile,
}

fn configured(text: &str) -> Configured {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    fs::write(file.path(), text).expect("file write");
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).expect("file mode");
    let encryption = Encryption::open(file.path()).expect("configuration");
    Configured { encryption, file }
}

fn value() -> Value {
    Value {
        bytes: Bytes::from_static(
            br#"{"metadata":{"resourceVersion":""},"data":{"password":"aHVudGVyMg=="}}"#,
        ),
        revision_at: Some(32),
    }
}

fn error_of(text: &str) -> String {
    let parsed = EncryptionConfiguration::parse(text.as_bytes()).and_then(Rules::new);
    parsed.err().expect("invalid configuration").to_string()
}

#[test]
fn seals_and_opens_with_every_provider() {
    let short = "MDEyMzQ1Njc4OWFiY2RlZg==";
    let middle = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
    for (provider, secret) in [
        ("aescbc", short),
        ("aescbc", middle),
        ("aescbc", AES),
        ("aesgcm", short),
        ("aesgcm", middle),
        ("aesgcm", AES),
        ("secretbox", AES),
    ] {
        let providers = element(&keys(provider, &[("key1", secret)]));
        let Configured { encryption, .. } = configured(&configuration("secrets", &providers));
        let sealed = encryption.seal(KEY, &value()).expect("sealed value");
        let prefix = format!("k8s:enc:{provider}:v1:key1:");
        assert!(sealed.bytes.starts_with(prefix.as_bytes()) && sealed.revision_at.is_none());
        assert!(!sealed.bytes.windows(8).any(|window| window == b"password"));
        let again = encryption.seal(KEY, &value()).expect("sealed value");
        assert_ne!(sealed, again, "nonces are random");
        assert_eq!(encryption.open(KEY, &sealed).expect("opened value"), value());
        let moved = encryption.open("/secrets/default/other", &sealed);
        assert_eq!(
            moved.is_err(),
            provider == "aesgcm",
            "the store key is associated data of AES-GCM only"
        );
        for length in [0, prefix.len(), prefix.len() + 5, sealed.bytes.len() - 1] {
            let truncated = Value::sealed(sealed.bytes.slice(..length));
            encryption.open(KEY, &truncated).expect_err("truncated value");
        }
        let untouched = encryption.seal("/configmaps/default/a", &value()).expect("value");
        assert_eq!(untouched, value(), "no rule applies");
    }
}

/// Opens AES-CBC values from openssl and Secretbox values from golang.org/x/crypto (`TestSecretBox`).
#[test]
fn opens_values_of_other_implementations() {
    let hex = |text: &str| -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
        pairs.map(|pair| octet(pair).expect("hexadecimal")).collect()
    };
    let cbc = element(&keys("aescbc", &[("k", AES)]));
    let Configured { encryption, .. } = configured(&configuration("secrets", &cbc));
    let sealed = hex("27c850ca2e649c23e8a649e91501b7c06b6ae543640ff33fbd102471e8de9663");
    let stored = [&b"k8s:enc:aescbc:v1:k:"[..], &[7; 16], &sealed].concat();
    let opened = encryption
        .open(KEY, &Value::sealed(stored.into()))
        .expect("value");
    assert_eq!(&*opened.bytes, br#"{"kind":"Secret"}"#);

    let secretbox = keys(
        "secretbox",
        &[("k", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")],
    );
    let Configured { encryption, .. } = configured(&configuration("secrets", &element(&secretbox)));
    let sealed = hex(concat!(
        "8442bc313f4626f1359e3b50122b6ce6fe66ddfe7d39d14e637eb4fd5b45beadab55198df6ab5368439792a23c87db70",
        "acb6156dc5ef957ac04f6276cf6093b84be77ff0849cc33e34b7254d5a8f65ad"
    ));
    let stored = [&b"k8s:enc:secretbox:v1:k:"[..], &[2; 24], &sealed].concat();
    let failure = encryption
        .open(KEY, &Value::sealed(stored.into()))
        .expect_err("64 bytes of 3");
    assert_eq!(
        failure.reason, "decrypted data is not a stored value",
        "the ciphertext is authentic"
    );
}

#[test]
fn values_with_old_keys_and_plain_values_are_stale() {
    let old = configured(&configuration(
        "secrets",
        &element(&keys("aescbc", &[("old", AES)])),
    ));
    let by_old = old.encryption.seal(KEY, &value()).expect("sealed value");
    let providers = [
        element(&keys("aesgcm", &[("new", OTHER)])),
        element(&keys("aescbc", &[("newer", OTHER), ("old", AES)])),
        element("identity: {}"),
    ];
    let Configured { encryption, .. } = configured(&configuration("secrets", &providers.join(", ")));
    for stored in [by_old, value()] {
        assert_eq!(encryption.open(KEY, &stored).expect("opened value"), value());
        assert!(encryption.is_stale(KEY));
        let sealed = encryption.seal(KEY, &value()).expect("sealed value");
        assert!(!encryption.is_stale(KEY));
        assert_eq!(encryption.open(KEY, &sealed).expect("opened value"), value());
        assert!(!encryption.is_stale(KEY));
    }
}

#[test]
fn open_reports_the_cause_of_a_failure() {
    let with_removed_key = configured(&configuration(
        "secrets",
        &element(&keys("aesgcm", &[("gone", AES)])),
    ));
    let sealed = with_removed_key
        .encryption
        .seal(KEY, &value())
        .expect("sealed value");
    let error_of_open = |providers: &[String], stored: &Value| {
        let configured = configured(&configuration("secrets", &providers.join(", ")));
        let failure = configured.encryption.open(KEY, stored).expect_err("failed open");
        failure.to_string()
    };
    let start = r#"unable to transform key "/secrets/default/token": "#;
    let identity = element("identity: {}");
    let other = element(&keys("aesgcm", &[("other", AES)]));
    let same_name = element(&keys("aesgcm", &[("gone", OTHER)]));
    let cbc = element(&keys("aescbc", &[("gone", AES)]));
    for (providers, stored, reason) in [
        (
            vec![identity.clone()],
            &sealed,
            "identity transformer tried to read encrypted data",
        ),
        (
            vec![other, identity],
            &sealed,
            "no matching key was found for the provided AES transformer",
        ),
        (vec![same_name], &sealed, "cipher: message authentication failed"),
        (vec![cbc.clone()], &sealed, "no matching prefix found"),
        (vec![cbc], &value(), "no matching prefix found"),
    ] {
        assert_eq!(error_of_open(&providers, stored), format!("{start}{reason}"));
    }
}

#[test]
fn most_specific_rule_applies_and_masked_rules_are_rejected() {
    let element = |resources: &str, name: &str| {
        let providers = element(&keys("aescbc", &[(name, AES)]));
        format!("- resources: [{resources}]\n  providers: [{providers}]\n")
    };
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n";
    let text = [
        head,
        &element("secrets, deployments.apps", "exact"),
        &element("'*.apps'", "group"),
        &element("'*.'", "core"),
        &element("'*.*'", "all"),
    ]
    .concat();
    let Configured { encryption, .. } = configured(&text);
    for (key, name) in [
        ("/secrets/default/a", "exact"),
        ("/apps/deployments/default/a", "exact"),
        ("/apps/replicasets/default/a", "group"),
        ("/configmaps/default/a", "core"),
        ("/namespaces/a", "core"),
        ("/discovery.k8s.io/endpointslices/default/a", "all"),
    ] {
        let sealed = encryption.seal(key, &value()).expect("sealed value");
        let prefix = format!("k8s:enc:aescbc:v1:{name}:");
        assert!(sealed.bytes.starts_with(prefix.as_bytes()), "{key}");
    }
    assert!(
        !encryption.covers("/nodeports/30000"),
        "allocation records are not encrypted"
    );
    let masked = [head, &element("'*.'", "core"), &element("secrets", "exact")].concat();
    assert_eq!(
        error_of(&masked),
        r#"resource "secrets" is masked by earlier rule "*.""#
    );
    let masked = [head, &element("'*.*'", "all"), &element("'*.'", "core")].concat();
    assert_eq!(
        error_of(&masked),
        r#"resource "*." is masked by earlier rule "*.*""#
    );
}

#[test]
fn rejects_invalid_configurations_with_upstream_messages() {
    let identity = element("identity: {}");
    let secret = |provider: &str, secret: &str| element(&keys(provider, &[("a", secret)]));
    let path = "resources[0].providers[0]";
    for (resources, providers, message) in [
        ("", identity.clone(), "resources[0].resources: Required value: at least one resources[0].resources is required".to_owned()),
        ("secrets", String::new(), "resources[0].providers: Required value: at least one resources[0].providers is required".to_owned()),
        ("secrets, secrets", identity.clone(), format!(r#"resources[0].resources: Invalid value: ["secrets","secrets"]: {}"#, "the same resource cannot be specified multiple times")),
        ("secrets, '*.'", identity.clone(), format!(r#"resources[0].resources: Invalid value: ["secrets","*."]: {}"#, "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked")),
        ("Secrets", identity.clone(), r#"resources[0].resources[0]: Invalid value: "Secrets": resource name should not contain capital letters"#.to_owned()),
        ("'*'", identity.clone(), r#"resources[0].resources[0]: Invalid value: "*": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"#.to_owned()),
        ("secrets.*", identity.clone(), r#"resources[0].resources[0]: Invalid value: "secrets.*": encrypting the same resource across groups is not supported"#.to_owned()),
        ("events.events.k8s.io", identity.clone(), r#"resources[0].resources[0]: Invalid value: "events.events.k8s.io": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"#.to_owned()),
        ("secrets", element(""), format!("{path}: Invalid value: {{}}: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")),
        ("secrets", element("aescbc: {keys: []}"), format!("{path}.aescbc.keys: Required value: at least one keys is required")),
        ("secrets", element("aescbc: {keys: [{name: a}]}"), format!("{path}.aescbc.keys[0].secret: Required value: secret is a mandatory field for a key")),
        ("secrets", secret("aesgcm", "'***'"), format!(r#"{path}.aesgcm.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded"#)),
        ("secrets", secret("aesgcm", "c2VjcmV0"), format!(r#"{path}.aesgcm.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 6, expected one of [16 24 32]"#)),
        ("secrets", secret("secretbox", "MDEyMzQ1Njc4OWFiY2RlZg=="), format!(r#"{path}.secretbox.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 16, expected one of [32]"#)),
        ("secrets", element("kms: {name: a, endpoint: 'unix:///a'}"), format!("{path}.kms: Forbidden: kms providers are not supported; use aescbc, aesgcm, secretbox or identity")),
    ] {
        assert_eq!(error_of(&configuration(resources, &providers)), message);
    }
    let two = format!("{{identity: {{}}, {}}}", keys("aescbc", &[("a", AES)]));
    let message = error_of(&configuration("secrets", &two));
    assert!(message.ends_with(
        "more than one provider specified in a single element, should split into different list elements"
    ));
    assert!(
        error_of("apiVersion: v1\nkind: Secret\n")
            .starts_with(r#"error while parsing file: no kind "Secret""#)
    );
    let empty = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
    assert_eq!(
        error_of(empty),
        "resources: Required value: at least one resources is required"
    );
}

#[test]
fn messages_do_not_contain_keys() {
    let misspelled = configuration(
        "secrets",
        &element(&format!("aescbc: {{keys: [{{name: a, secert: {AES}}}]}}")),
    );
    let wrong_type = configuration("secrets", &element(&format!("aescbc: [{AES}]")));
    let unclosed = configuration(
        "secrets",
        &element(&format!("aescbc: {{keys: [{{name: a, secret: '{AES}}}]}}")),
    );
    for text in [misspelled, wrong_type, unclosed] {
        let message = error_of(&text);
        assert!(
            message.starts_with("error while parsing file: line ") && !message.contains(AES),
            "{message}"
        );
    }
}

#[test]
fn reload_applies_valid_files_and_ignores_invalid_ones() {
    let old = configuration("secrets", &element(&keys("aescbc", &[("old", AES)])));
    let Configured { encryption, file } = configured(&old);
    let directory = tempfile::tempdir().expect("directory");
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).expect("store");
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![Write::Put(KEY.into(), value())],
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let committed = runtime.expect("runtime").block_on(store.commit(transaction));
    committed.expect("commit");
    let index = store.index();
    fs::write(file.path(), "apiVersion: v1").expect("file write");
    encryption.reload(index).expect_err("invalid file");
    let is_by = |name: &str| {
        let sealed = encryption
            .seal("/secrets/default/other", &value())
            .expect("sealed value");
        sealed
            .bytes
            .starts_with(format!("k8s:enc:aescbc:v1:{name}:").as_bytes())
    };
    assert!(is_by("old") && !encryption.is_stale(KEY));
    let new = configuration(
        "secrets",
        &element(&keys("aescbc", &[("new", OTHER), ("old", AES)])),
    );
    fs::write(file.path(), &new).expect("file write");
    encryption.reload(index).expect("valid file");
    assert!(is_by("new") && encryption.is_stale(KEY));
    encryption.forget(KEY);
    encryption.reload(index).expect("unchanged file");
    assert!(!encryption.is_stale(KEY), "no form has changed");
}
