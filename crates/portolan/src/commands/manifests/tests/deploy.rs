//! The directory `deploy`, which has the same objects for `kubectl apply -k`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{objects, output};

/// Environment variable that makes [`bases_equal_the_output`] write the files.
const UPDATE_GOLDEN: &str = "UPDATE_GOLDEN";
/// URL of the API server in the bases, a placeholder that users replace.
const PLACEHOLDER: &str = "--server=https://api-server.example:6443";
/// Object with the placeholder, which all bases but `server` leave out.
const SERVER_CONFIG_MAP: &str = "portolan-server";
/// Bases, and the command line whose output they have.
const BASES: [(&str, &[&str]); 6] = [
    ("server", &["controllers", PLACEHOLDER]),
    ("proxy", &["proxy", PLACEHOLDER]),
    ("dns", &["dns"]),
    ("node-local-dns", &["node-local-dns", PLACEHOLDER]),
    ("controllers", &["controllers", PLACEHOLDER]),
    ("balancer", &["balancer", PLACEHOLDER]),
];
/// Overlays, and the command line whose objects `kubectl kustomize` prints for them.
const OVERLAYS: [(&str, &[&str]); 9] = [
    ("all", &["all", PLACEHOLDER]),
    ("proxy", &["proxy", PLACEHOLDER]),
    ("proxy-iptables", &["proxy", PLACEHOLDER, "--proxy-mode=iptables"]),
    ("proxy-takeover", &["proxy", "--takeover-from=kube-proxy"]),
    ("dns", &["dns"]),
    ("dns-takeover", &["dns", "--takeover-from=coredns"]),
    ("node-local-dns", &["node-local-dns", PLACEHOLDER]),
    ("controllers", &["controllers", PLACEHOLDER]),
    ("balancer", &["balancer", PLACEHOLDER]),
];

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"))
}

/// Returns the contents of a base.
fn base(name: &str, arguments: &[&str]) -> String {
    let is_server = |document: &&str| document.contains(&format!("name: {SERVER_CONFIG_MAP}\n  namespace"));
    let text = output(arguments);
    let documents = text
        .split_inclusive("---\n")
        .map(|document| document.trim_end_matches("---\n"));
    let documents = documents.filter(|document| !document.is_empty());
    let kept = documents.filter(|document| is_server(document) == (name == "server"));
    kept.map(|document| format!("---\n{document}")).collect()
}

/// Compares the bases with the output of the command. After a change of the command,
/// `UPDATE_GOLDEN=1 cargo test -p portolan bases_equal` writes the files.
#[test]
fn bases_equal_the_output() {
    for (name, arguments) in BASES {
        let path = directory().join("base").join(name).join("manifests.yaml");
        let expected = base(name, arguments);
        assert!(!expected.is_empty(), "{name}");
        if std::env::var_os(UPDATE_GOLDEN).is_some() {
            fs::create_dir_all(path.parent().expect("a directory")).expect("a new directory");
            fs::write(&path, &expected).expect("a base");
        }
        let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(
            found,
            expected,
            "{} differs; write it with {UPDATE_GOLDEN}=1",
            path.display()
        );
    }
}

/// Returns objects by kind, namespace and name.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        format!(
            "{} {} {}",
            object["kind"], metadata["namespace"], metadata["name"]
        )
    };
    objects.into_iter().map(|object| (key(&object), object)).collect()
}

#[test]
fn overlays_have_the_objects_of_the_output() {
    if Command::new("kubectl").arg("--help").output().is_err() {
        return println!("skipped: overlays_have_the_objects_of_the_output: kubectl is not installed");
    }
    for (name, arguments) in OVERLAYS {
        let path = directory().join("overlays").join(name);
        let rendered = Command::new("kubectl")
            .arg("kustomize")
            .arg(&path)
            .output()
            .expect("kubectl");
        let errors = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success(), "{name}: {errors}");
        let text = String::from_utf8(rendered.stdout).expect("UTF-8");
        let found: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let (found, expected) = (by_name(found), by_name(objects(arguments)));
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (key, object) in &expected {
            assert_eq!(found[key], *object, "{name}: {key}");
        }
    }
}

/// Each overlay is in [`OVERLAYS`], and each base is used.
#[test]
fn all_overlays_are_compared() {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(directory().join(folder)).expect("a folder of deploy");
        let names = entries.map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let mut overlays = OVERLAYS.map(|(name, _)| name);
    overlays.sort_unstable();
    assert_eq!(names("overlays"), overlays);
    let mut bases = BASES.map(|(name, _)| name);
    bases.sort_unstable();
    assert_eq!(names("base"), bases);
}
