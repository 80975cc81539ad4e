use std::os::unix::fs::PermissionsExt;

use super::*;

const PORTOLAN: &str = "
apiVersion: v1
kind: Config
clusters: [{name: portolan, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: QQ==}}]
contexts: [{name: kubernetes-admin@portolan, context: {cluster: portolan, user: kubernetes-admin}}]
current-context: kubernetes-admin@portolan
users: [{name: kubernetes-admin, user: {client-certificate-data: Qw==, client-key-data: Sw==}}]
";
const OTHER: &str = "
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters: [{name: work, cluster: {server: 'https://work', insecure-skip-tls-verify: true}}]
contexts: [{name: work, context: {cluster: work, user: 'yes', namespace: '0123'}}]
users: [{name: 'yes', user: {exec: {command: login, args: ['--x']}}}]
";

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn merge_and_removal_keep_other_entries() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (
        directory.path().join("admin.conf"),
        directory.path().join("config"),
    );
    fs::write(&from, PORTOLAN).unwrap();
    fs::write(&into, OTHER).unwrap();
    merge_file(&from, &into, "portolan", false).unwrap();
    // Merging is idempotent.
    merge_file(&from, &into, "portolan", false).unwrap();
    let merged = yaml(&fs::read_to_string(&into).unwrap());
    assert_eq!(merged["current-context"], "portolan");
    assert_eq!(merged["preferences"], json!({"colors": true}));
    let other = yaml(OTHER);
    for (list, field) in LISTS {
        let entries = merged[list].as_array().unwrap();
        assert_eq!(entries.len(), 2, "{list}");
        assert_eq!(entries[0], other[list][0]);
        assert_eq!(entries[1]["name"], "portolan");
        assert!(is_merged(&entries[1], field));
    }
    assert_eq!(
        merged["clusters"][1]["cluster"]["server"],
        "https://127.0.0.1:6443"
    );
    assert_eq!(merged["users"][1]["user"]["client-key-data"], "Sw==");
    let mode = fs::metadata(&into).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!directory.path().join("config.lock").exists());
    assert!(remove_from_file(&into, "portolan").unwrap());
    assert!(!remove_from_file(&into, "portolan").unwrap());
    let left = yaml(&fs::read_to_string(&into).unwrap());
    for (list, _) in LISTS {
        assert_eq!(left[list], other[list]);
    }
    assert_eq!(left["current-context"], "");
}

#[test]
fn merge_creates_a_missing_file() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("a"), directory.path().join("deep/config"));
    fs::write(&from, PORTOLAN).unwrap();
    merge_file(&from, &into, "here", true).unwrap();
    let config = client::Config::from_kubeconfig(&into);
    assert!(config.is_err(), "no current context");
    merge_file(&from, &into, "here", false).unwrap();
    let config = client::Config::from_kubeconfig(&into).unwrap();
    assert_eq!(config.server, "https://127.0.0.1:6443");
}

#[test]
fn rejects_names_of_other_entries() {
    let error = merge(yaml(OTHER), &yaml(PORTOLAN), "work").expect_err("a name in use");
    assert!(error.to_string().contains("\"work\""), "{error}");
    let mut other = yaml(OTHER);
    assert!(!remove(&mut other, "work"));
    assert_eq!(other, yaml(OTHER));
}

#[test]
fn invalid_files_are_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("a"), directory.path().join("b"));
    fs::write(&from, PORTOLAN).unwrap();
    for content in ["- a\n- b\n", "a: [\n", "token: secret\na: [\n"] {
        fs::write(&into, content).unwrap();
        let error = merge_file(&from, &into, "portolan", false).expect_err("an invalid file");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(fs::read_to_string(&into).unwrap(), content);
    }
}

#[test]
fn entry_that_is_not_a_mapping_is_merged_as_empty() {
    let mut source = yaml(PORTOLAN);
    source["clusters"][0]["cluster"] = "none".into();
    let merged = merge(Value::Null, &source, "here").expect("merged");
    assert!(is_merged(&merged["clusters"][0], "cluster"), "{merged:#}");
    assert!(merged["clusters"][0]["cluster"]["server"].is_null(), "{merged:#}");
}

#[test]
fn owner_of_a_file_behind_a_link_stays() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("config");
    std::os::unix::fs::symlink("missing", &link).unwrap();
    let own = fs::symlink_metadata(&link).unwrap();
    // A call that follows the link finds no file.
    give_to(&link, own.uid(), own.gid()).unwrap();
}
