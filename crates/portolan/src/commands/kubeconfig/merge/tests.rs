use std::os::unix::fs::PermissionsExt;

use super::*;

const OURS: &str = "
apiVersion: v1
kind: Config
clusters: [{name: portolan, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: QQ==}}]
contexts: [{name: kubernetes-admin@portolan, context: {cluster: portolan, user: kubernetes-admin}}]
current-context: kubernetes-admin@portolan
users: [{name: kubernetes-admin, user: {client-certificate-data: Qw==, client-key-data: Sw==}}]
";
const THEIRS: &str = "
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
fn foreign_entries_stay_and_ours_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (
        directory.path().join("admin.conf"),
        directory.path().join("config"),
    );
    fs::write(&from, OURS).unwrap();
    fs::write(&into, THEIRS).unwrap();
    merge_file(&from, &into, "portolan", false).unwrap();
    // Twice is as good as once.
    merge_file(&from, &into, "portolan", false).unwrap();
    let merged = yaml(&fs::read_to_string(&into).unwrap());
    assert_eq!(merged["current-context"], "portolan");
    assert_eq!(merged["preferences"], json!({"colors": true}));
    let theirs = yaml(THEIRS);
    for (list, field) in LISTS {
        let entries = merged[list].as_array().unwrap();
        assert_eq!(entries.len(), 2, "{list}");
        assert_eq!(entries[0], theirs[list][0]);
        assert_eq!(entries[1]["name"], "portolan");
        assert!(is_ours(&entries[1], field));
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
        assert_eq!(left[list], theirs[list]);
    }
    assert_eq!(left["current-context"], "");
}

#[test]
fn a_file_that_is_not_there_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("a"), directory.path().join("deep/config"));
    fs::write(&from, OURS).unwrap();
    merge_file(&from, &into, "here", true).unwrap();
    let config = client::Config::from_kubeconfig(&into);
    assert!(config.is_err(), "no current context");
    merge_file(&from, &into, "here", false).unwrap();
    let config = client::Config::from_kubeconfig(&into).unwrap();
    assert_eq!(config.server, "https://127.0.0.1:6443");
}

#[test]
fn a_name_that_is_somebody_elses_is_left_to_them() {
    let refused = merge(yaml(THEIRS), &yaml(OURS), "work").expect_err("taken");
    assert!(refused.to_string().contains("\"work\""), "{refused}");
    let mut theirs = yaml(THEIRS);
    assert!(!remove(&mut theirs, "work"));
    assert_eq!(theirs, yaml(THEIRS));
}

#[test]
fn what_is_no_kubeconfig_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("a"), directory.path().join("b"));
    fs::write(&from, OURS).unwrap();
    for content in ["- a\n- b\n", "a: [\n"] {
        fs::write(&into, content).unwrap();
        merge_file(&from, &into, "portolan", false).expect_err("no kubeconfig");
        assert_eq!(fs::read_to_string(&into).unwrap(), content);
    }
}

#[test]
fn an_entry_without_fields_is_one_without_content() {
    let mut source = yaml(OURS);
    source["clusters"][0]["cluster"] = "none".into();
    let merged = merge(Value::Null, &source, "here").expect("merged");
    assert!(is_ours(&merged["clusters"][0], "cluster"), "{merged:#}");
    assert!(merged["clusters"][0]["cluster"]["server"].is_null(), "{merged:#}");
}
