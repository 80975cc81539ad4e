use std::os::unix::fs::PermissionsExt;

use super::*;

fn names(extra: &str) -> Vec<String> {
    serving_names(
        extra,
        "cluster.local",
        &["10.96.0.1".parse().unwrap(), "0.0.0.0".parse().unwrap()],
    )
}

#[test]
fn serving_names_cover_local_and_cluster_clients() {
    let names = names("box");
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "box",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
    ] {
        assert!(names.iter().any(|candidate| candidate == name), "{name}");
    }
    assert!(!names.iter().any(|name| name == "0.0.0.0"));
}

#[test]
fn certificates_are_private_and_reused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pki");
    let first = Pki::open(&path, &names("box")).unwrap();
    for file in ["ca.key", "apiserver.key", "admin.key", "ca.crt"] {
        let mode = std::fs::metadata(path.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let second = Pki::open(&path, &names("box")).unwrap();
    assert_eq!(first.authority, second.authority);
    assert_eq!(first.serving.certificate, second.serving.certificate);
    assert_eq!(first.admin.certificate, second.admin.certificate);
}

#[test]
fn new_name_renews_the_serving_certificate_only() {
    let directory = tempfile::tempdir().unwrap();
    let first = Pki::open(directory.path(), &names("box")).unwrap();
    let second = Pki::open(directory.path(), &names("other")).unwrap();
    assert_eq!(first.authority, second.authority);
    assert_eq!(first.admin.certificate, second.admin.certificate);
    assert_ne!(first.serving.certificate, second.serving.certificate);
}

#[test]
fn damaged_key_reissues_the_pair_but_never_the_ca() {
    let directory = tempfile::tempdir().unwrap();
    let first = Pki::open(directory.path(), &names("box")).unwrap();
    std::fs::write(directory.path().join("admin.key"), "nonsense").unwrap();
    let second = Pki::open(directory.path(), &names("box")).unwrap();
    assert_ne!(first.admin.certificate, second.admin.certificate);
    std::fs::write(directory.path().join("ca.key"), "nonsense").unwrap();
    assert!(matches!(
        Pki::open(directory.path(), &names("box")),
        Err(PkiError::Unusable { .. })
    ));
}

#[test]
fn pair_that_a_power_failure_damaged_is_issued_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let authority = Pki::open(path, &names("box")).unwrap().authority;
    let addresses = ["192.0.2.1".parse().unwrap()];
    for damaged in ["crt", "key"] {
        // Lost, empty, zeros in place of the contents, and contents of another file.
        for contents in [None, Some(vec![]), Some(vec![0_u8; 300]), Some(vec![0xff; 300])] {
            let issued = || {
                let admin = Pki::open(path, &names("box")).unwrap().admin;
                let proxy = client(path, "proxy", "system:kube-proxy", "").unwrap().pair;
                let agent = node_serving(path, "n1", &addresses).unwrap().pair;
                [admin, proxy, agent]
            };
            let before = issued();
            for name in ["admin", "proxy", "serving-n1"] {
                let file = path.join(format!("{name}.{damaged}"));
                match &contents {
                    Some(contents) => std::fs::write(file, contents).unwrap(),
                    None => std::fs::remove_file(file).unwrap(),
                }
            }
            for (before, after) in before.iter().zip(issued()) {
                assert_ne!(before.certificate, after.certificate);
                let key = KeyPair::from_pem(&after.key).unwrap();
                assert!(issue::is_for_key(&after.certificate, &key));
            }
        }
    }
    assert_eq!(Pki::open(path, &names("box")).unwrap().authority, authority);
}

#[test]
fn new_ca_signs_all_certificates_after_a_crash_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    ensure_authorities(path).unwrap();
    let first = Pki::open(path, &names("box")).unwrap();
    ensure_authorities(path).unwrap();
    assert_eq!(
        Pki::open(path, &names("box")).unwrap().admin.certificate,
        first.admin.certificate
    );
    for file in ["ca.crt", "ca.key"] {
        std::fs::remove_file(path.join(file)).unwrap();
    }
    // The process ends here, before it signs certificates.
    ensure_authorities(path).unwrap();
    let second = Pki::open(path, &names("box")).unwrap();
    assert_ne!(first.authority, second.authority);
    for pair in [&second.serving, &second.admin] {
        assert!(is_signed_by(&pair.certificate, &second.authority));
    }
}

#[test]
fn recognizes_certificates_that_expire_soon() {
    let pair = issue::create_ca("portolan-ca", issue::generate_key().unwrap(), 1_700_000_000).unwrap();
    assert!(issue::expires_after(
        &pair.certificate,
        1_700_000_000 + 3_000 * 86_400
    ));
    assert!(!issue::expires_after(
        &pair.certificate,
        1_700_000_000 + 4_000 * 86_400
    ));
}

#[test]
fn client_certificate_is_reused_while_valid() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let missing = client(path, "kube-proxy", "system:kube-proxy", "").err().unwrap();
    assert!(
        missing.to_string().contains("start the API server first"),
        "{missing}"
    );
    Pki::open(path, &serving_names("box", "cluster.local", &[])).unwrap();
    let first = client(path, "kube-proxy", "system:kube-proxy", "").unwrap();
    let second = client(path, "kube-proxy", "system:kube-proxy", "").unwrap();
    assert_eq!(first.pair.certificate, second.pair.certificate);
    let other = client(path, "kube-proxy", "system:node:n", "system:nodes").unwrap();
    let of_node = client(path, "kube-proxy", "system:node:n", "system:nodes").unwrap();
    assert_eq!(other.pair.certificate, of_node.pair.certificate);
    assert_ne!(first.pair.certificate, other.pair.certificate);
    for file in ["ca.crt", "ca.key"] {
        std::fs::remove_file(path.join(file)).unwrap();
    }
    Pki::open(path, &serving_names("box", "cluster.local", &[])).unwrap();
    let reissued = client(path, "kube-proxy", "system:node:n", "system:nodes").unwrap();
    assert_ne!(other.pair.certificate, reissued.pair.certificate);
}

#[test]
fn agents_are_signed_by_a_ca_that_api_clients_do_not_trust() {
    let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let names = serving_names("box", "cluster.local", &[]);
    let pki = Pki::open(one.path(), &names).unwrap();
    let addresses = ["192.0.2.1".parse().unwrap()];
    let serving = node_serving(one.path(), "n1", &addresses).unwrap();
    assert!(is_signed_by(
        &serving.pair.certificate,
        &pki.kubelet_serving_authority
    ));
    assert!(!is_signed_by(&serving.pair.certificate, &pki.authority));
    // A server with only the same cluster CA trusts the same agents.
    for file in ["ca.crt", "ca.key"] {
        std::fs::copy(one.path().join(file), other.path().join(file)).unwrap();
    }
    let pki = Pki::open(other.path(), &names).unwrap();
    assert!(is_signed_by(
        &serving.pair.certificate,
        &pki.kubelet_serving_authority
    ));
}

#[test]
fn reissues_agent_certificates_of_the_cluster_ca() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), &serving_names("box", "cluster.local", &[])).unwrap();
    let files = Files {
        directory: directory.path(),
    };
    let authority = files.authority().unwrap();
    let issuer = files.issuer(AUTHORITY, &authority).unwrap();
    let purpose = Purpose::Serving {
        common_name: "system:node:n1",
        names: &["n1".to_owned()],
    };
    let now_seconds = jiff::Timestamp::now().as_second();
    let old = issue::sign(&issuer, purpose, now_seconds).unwrap();
    files.write("serving-n1", old).unwrap();
    let reissued = node_serving(directory.path(), "n1", &[]).unwrap();
    assert!(is_signed_by(
        &reissued.pair.certificate,
        &pki.kubelet_serving_authority
    ));
}
