use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::atomic_writer::{File, Files};
use super::*;
use crate::containers::environment::SourceKind;
use crate::object::HostPath;

fn pod(volumes: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"b": "2", "a": "1"}},
        "spec": {"volumes": [volumes], "containers": [{"name": "a", "resources": {"limits": {"cpu": "1500m"}}}]},
    }))
    .unwrap()
}

fn files(volume: serde_json::Value) -> Result<Files, String> {
    let pod = pod(volume);
    let config = BTreeMap::from([("k".to_owned(), b"v".to_vec()), ("l".to_owned(), b"w".to_vec())]);
    let sources = payload::Sources {
        pod: &pod,
        facts: &PodFacts::default(),
        objects: &BTreeMap::from([((SourceKind::ConfigMap, "c".to_owned()), config)]),
        tokens: &BTreeMap::from([(String::new(), "t".to_owned())]),
    };
    let (projections, mode) = payload::projections(&pod.spec.volumes[0]).unwrap();
    payload::files(&projections, mode, &sources).map_err(|error| error.to_string())
}

fn texts(files: &Files) -> Vec<(&str, &str, u32)> {
    let text = |file: &'_ File| String::from_utf8(file.content.clone()).unwrap();
    files
        .iter()
        .map(|(path, file)| (path.as_str(), &*text(file).leak(), file.mode))
        .collect()
}

#[test]
fn files_have_keys_and_items() {
    let all = files(json!({"configMap": {"name": "c"}})).unwrap();
    assert_eq!(texts(&all), [("k", "v", 0o644), ("l", "w", 0o644)]);
    let some = json!({"configMap": {"name": "c", "defaultMode": 0o400, "items": [{"key": "l", "path": "x/y", "mode": 0o600}]}});
    assert_eq!(texts(&files(some).unwrap()), [("x/y", "w", 0o600)]);
    let missing = |more: serde_json::Value| {
        let mut source = json!({"name": "c"});
        for (key, value) in more.as_object().unwrap() {
            source[key] = value.clone();
        }
        files(json!({"configMap": source}))
    };
    let item = json!([{"key": "no", "path": "x"}]);
    assert_eq!(
        missing(json!({"items": item})).unwrap_err(),
        "configmap \"c\" references non-existent key: no"
    );
    assert!(
        missing(json!({"items": item, "optional": true}))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        missing(json!({"name": "d"})).unwrap_err(),
        "configmap \"d\" not found"
    );
    let out = json!([{"key": "k", "path": "../x"}]);
    assert!(
        missing(json!({"items": out}))
            .unwrap_err()
            .contains("expected a relative path without ..")
    );
}

#[test]
fn projected_volume_merges_sources() {
    let volume = json!({"projected": {"defaultMode": 0o440, "sources": [
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "ca.crt"}]}},
        {"serviceAccountToken": {"path": "token"}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "a", "resource": "limits.cpu", "divisor": "1m"}},
        ]}},
    ]}});
    let expected = [
        ("ca.crt", "v", 0o440),
        ("cpu", "1500", 0o440),
        ("labels", "a=\"1\"\nb=\"2\"", 0o440),
        ("namespace", "shop", 0o440),
        ("token", "t", 0o440),
    ];
    assert_eq!(texts(&files(volume).unwrap()), expected);
}

#[test]
fn update_is_atomic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("v");
    let file = |text: &str| File {
        content: text.into(),
        mode: 0o640,
    };
    let first = Files::from([("a".to_owned(), file("1")), ("d/b".to_owned(), file("2"))]);
    assert!(atomic_writer::write(&path, &first, Owners::default()).unwrap());
    assert!(
        !atomic_writer::write(&path, &first, Owners::default()).unwrap(),
        "nothing has changed"
    );
    let before = fs::read_link(path.join("..data")).unwrap();
    assert_eq!(fs::read_link(path.join("a")).unwrap(), Path::new("..data/a"));
    assert_eq!(fs::read(path.join("d/b")).unwrap(), b"2");
    assert_eq!(fs::metadata(path.join("a")).unwrap().mode() & 0o777, 0o640);
    let second = Files::from([("a".to_owned(), file("3")), ("c".to_owned(), file("4"))]);
    assert!(atomic_writer::write(&path, &second, Owners::default()).unwrap());
    assert_ne!(fs::read_link(path.join("..data")).unwrap(), before);
    assert_eq!(fs::read(path.join("a")).unwrap(), b"3");
    assert!(!path.join("d").exists() && !path.join(before).exists());
    let names = fs::read_dir(&path).unwrap().count();
    assert_eq!(names, 4, "two links, ..data and its target");
}

#[test]
fn checks_host_path_type_and_location() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, kind: &str| {
        host_path::set_up(
            &HostPath {
                path: directory.path().join(name).display().to_string(),
                kind: kind.to_owned(),
            },
            &[directory.path().join("cluster")],
        )
        .map_err(|error| error.to_string())
    };
    assert!(check("d", "DirectoryOrCreate").unwrap().is_dir());
    assert!(check("d", "Directory").is_ok() && check("d", "").is_ok());
    assert!(check("d", "File").unwrap_err().ends_with("is not a file"));
    assert!(check("none", "").is_err());
    assert!(check("f", "FileOrCreate").unwrap().is_file());
    fs::create_dir(directory.path().join("cluster")).unwrap();
    std::os::unix::fs::symlink("cluster", directory.path().join("link")).unwrap();
    for hidden in [
        "cluster",
        "cluster/pki",
        "link",
        "link/pki",
        "d/../cluster",
        "./cluster/new",
    ] {
        let message = check(hidden, "DirectoryOrCreate").unwrap_err();
        assert!(message.contains("no Pod may mount it"), "{hidden}: {message}");
    }
    assert!(!directory.path().join("cluster/new").exists());
}

/// A container can make `..data` a symbolic link to an absolute path or upwards.
#[test]
fn writer_ignores_targets_of_foreign_links() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::create_dir_all(&victim).unwrap();
    fs::write(victim.join("precious"), "kept").unwrap();
    let path = directory.path().join("v");
    let content = |text: &str| {
        let file = File {
            content: text.into(),
            mode: 0o644,
        };
        Files::from([("a".to_owned(), file.clone()), ("d/b".to_owned(), file)])
    };
    atomic_writer::write(&path, &content("1"), Owners::default()).unwrap();
    let foreign = [victim.clone(), PathBuf::from("../victim"), PathBuf::from("..")];
    for (number, target) in foreign.iter().enumerate() {
        fs::remove_file(path.join("..data")).unwrap();
        std::os::unix::fs::symlink(target, path.join("..data")).unwrap();
        assert!(
            atomic_writer::write(&path, &content(&format!("after {number}")), Owners::default()).unwrap()
        );
        assert_eq!(fs::read(victim.join("precious")).unwrap(), b"kept", "{target:?}");
        assert_eq!(
            fs::read(path.join("d/b")).unwrap(),
            format!("after {number}").as_bytes()
        );
    }
    // The name of a file is a symbolic link to another directory.
    fs::remove_file(path.join("d")).unwrap();
    std::os::unix::fs::symlink(&victim, path.join("d")).unwrap();
    atomic_writer::write(&path, &content("last"), Owners::default()).unwrap();
    assert_eq!(fs::read(path.join("d/b")).unwrap(), b"last");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
}

#[test]
fn directory_follows_no_symbolic_link() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    fs::create_dir_all(outside.join("x")).unwrap();
    fs::create_dir(root.path().join("v")).unwrap();
    std::os::unix::fs::symlink(&outside, root.path().join("v/link")).unwrap();
    let directory = directory::Directory::open(&root.path().join("v")).unwrap();
    let link = Path::new("link");
    assert!(directory.open_directory(link).is_err());
    assert!(directory.open_directory(Path::new("../outside")).is_err());
    assert!(directory.ensure_directory(Path::new("link/y"), 0o755).is_err());
    assert!(directory.write_new(link, b"", 0o644, Owners::default()).is_err());
    assert!(directory.ensure_file(link).is_err());
    assert!(directory::Directory::open(&root.path().join("v/link")).is_err());
    directory.remove(link).unwrap();
    assert!(outside.join("x").is_dir() && !outside.join("y").exists());
}

#[test]
fn items_that_repeat_a_large_key_are_rejected() {
    let items = |count: usize| -> Vec<_> {
        (0..count)
            .map(|number| json!({"key": "k", "path": number.to_string()}))
            .collect()
    };
    let pod = |count| pod(json!({"configMap": {"name": "c", "items": items(count)}}));
    let config = BTreeMap::from([("k".to_owned(), vec![0; 1 << 20])]);
    let objects = BTreeMap::from([((SourceKind::ConfigMap, "c".to_owned()), config)]);
    let files = |count| {
        let pod = pod(count);
        let sources = payload::Sources {
            pod: &pod,
            facts: &PodFacts::default(),
            objects: &objects,
            tokens: &BTreeMap::new(),
        };
        let (projections, mode) = payload::projections(&pod.spec.volumes[0]).unwrap();
        payload::files(&projections, mode, &sources)
    };
    assert_eq!(files(10).unwrap().len(), 10);
    assert!(matches!(files(100), Err(VolumeError::TooLarge { .. })));
}

#[tokio::test]
async fn refresh_writes_the_changed_labels_of_the_pod() {
    let directory = tempfile::tempdir().unwrap();
    let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    let pod = pod(json!({"name": "v", "downwardAPI": {"items": items}}));
    // The volume needs no API server.
    let client = Client::new(client::Config {
        server: "https://192.0.2.1:6443".to_owned(),
        ..client::Config::default()
    });
    let mut volumes = Volumes::new(
        directory.path().to_owned(),
        client.unwrap(),
        Arc::new(pod.clone()),
        PodFacts::default(),
        Vec::new(),
        None,
    );
    let paths = volumes.set_up().await.unwrap();
    let labels = || fs::read_to_string(paths["v"].join("labels")).unwrap();
    assert_eq!(labels(), "a=\"1\"\nb=\"2\"");
    let mut changed = pod;
    changed.metadata.labels.insert("b".into(), "3".into());
    volumes.refresh(Arc::new(changed)).await;
    assert_eq!(labels(), "a=\"1\"\nb=\"3\"");
}

#[test]
fn names_of_sources_add_no_query_to_requests() {
    let path = |name: &str| fetch::path_of("shop", SourceKind::Secret, name);
    assert_eq!(path("a.b-1"), "/api/v1/namespaces/shop/secrets/a.b-1");
    assert_eq!(
        path("a?watch=true"),
        "/api/v1/namespaces/shop/secrets/a%3Fwatch%3Dtrue"
    );
    assert_eq!(path("a/b"), "/api/v1/namespaces/shop/secrets/a%2Fb");
}
