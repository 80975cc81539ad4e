use super::*;
use crate::bootstrap::pki::CertificateAndKey;

#[test]
fn wildcard_address_becomes_loopback() {
    assert_eq!(
        server_url("0.0.0.0:6443".parse().unwrap()),
        "https://127.0.0.1:6443"
    );
    assert_eq!(server_url("[::]:6443".parse().unwrap()), "https://[::1]:6443");
    assert_eq!(server_url("192.0.2.1:1".parse().unwrap()), "https://192.0.2.1:1");
}

#[test]
fn renders_server_and_credentials() {
    let client = Client {
        authority: "A".into(),
        pair: CertificateAndKey {
            certificate: "C".into(),
            key: "K".into(),
        },
    };
    let text = render("https://127.0.0.1:6443", "kubernetes-admin", &client);
    assert!(text.contains("server: https://127.0.0.1:6443\n"));
    assert!(text.contains(&format!("client-certificate-data: {}\n", STANDARD.encode("C"))));
    assert!(text.contains(&format!("client-key-data: {}\n", STANDARD.encode("K"))));
}
