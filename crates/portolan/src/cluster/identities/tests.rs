use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn file_names_cannot_leave_their_directory() {
    assert_eq!(certificate_file_name("system:node:n1"), "client-system:node:n1");
    assert_eq!(certificate_file_name("../ca"), "client-..%2fca");
    assert_ne!(certificate_file_name("a_b"), certificate_file_name("a b"));
}

#[tokio::test]
async fn each_component_has_a_private_certificate_of_its_ca() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let identities = Identities {
        pki_directory: directory.path().to_owned(),
        server: "https://127.0.0.1:6443".to_owned(),
    };
    let endpoint = "192.0.2.1:10250".parse().expect("an address");
    let absent = identities.issue("n1", endpoint).await.err();
    let absent = absent.expect("no certificate without a CA").to_string();
    assert!(absent.contains("start the API server first"), "{absent}");
    let written = fs::read_dir(directory.path()).expect("the directory is readable");
    assert_eq!(written.count(), 0);

    let pki = apiserver::pki::Pki::open(directory.path(), &[]).expect("the CAs");
    let credentials = identities.issue("n1", endpoint).await.expect("credentials");
    assert_eq!(credentials.serving.listen, endpoint);
    let users = [
        "system:kube-controller-manager",
        "system:portolan-balancer",
        "system:portolan-chart",
        "system:node:n1",
    ]
    .map(str::to_owned);
    let users = users.into_iter().chain(NodePart::ALL.map(|part| part.user("n1")));
    let names = users.map(|user| (certificate_file_name(&user), &pki.authority));
    let serving = ("serving-n1".to_owned(), &pki.kubelet_serving_authority);
    for (name, authority) in names.chain([serving]) {
        let file = |extension: &str| directory.path().join(format!("{name}.{extension}"));
        let certificate = fs::read_to_string(file("crt")).expect("a certificate");
        assert!(apiserver::pki::is_signed_by(&certificate, authority), "{name}");
        for extension in ["crt", "key"] {
            let mode = fs::metadata(file(extension))
                .expect("metadata")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}.{extension}");
        }
    }
}
