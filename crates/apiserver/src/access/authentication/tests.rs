use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use store::{SqliteOptions, SqliteStore};

use super::*;
use crate::bootstrap::pki::{Pki, serving_names};

fn with(authorization: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static(authorization));
    headers
}

fn authenticator(directory: &std::path::Path) -> Authenticator {
    let store = SqliteStore::open(directory.join("store"), SqliteOptions::default()).unwrap();
    let accounts = ServiceAccounts::open(directory.to_owned(), "https://us".to_owned(), Arc::new(store));
    Authenticator::new(StaticTokens::default(), accounts.unwrap())
}

#[test]
fn invalid_token_fails_despite_a_valid_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let authenticator = authenticator(directory.path());
    let admin = Arc::new(Identity {
        user: "admin".into(),
        ..Identity::default()
    });
    let user_of = |headers: &HeaderMap, connection| {
        authenticator
            .authenticate(headers, connection, None)
            .map(|identity| identity.user.clone())
    };
    let (as_admin, as_anonymous) = (Ok("admin".to_owned()), Ok("system:anonymous".to_owned()));
    assert_eq!(user_of(&HeaderMap::new(), Some(&admin)), as_admin);
    assert_eq!(user_of(&with("Basic YTpi"), Some(&admin)), as_admin);
    assert_eq!(user_of(&with("Bearer"), Some(&admin)), as_admin);
    assert_eq!(
        user_of(&with("Bearer wrong"), Some(&admin)),
        Err(Failure::unauthorized())
    );
    assert_eq!(user_of(&HeaderMap::new(), None), as_anonymous);
    assert_eq!(user_of(&with("Bearer wrong"), None), Err(Failure::unauthorized()));
}

#[test]
fn certificate_subject_is_user_and_groups() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), &serving_names("box", "cluster.local", &[])).unwrap();
    let certificate = CertificateDer::from_pem_slice(pki.admin.certificate.as_bytes()).unwrap();
    let identity = Identity::of_certificate(&certificate).unwrap();
    assert_eq!(identity.user, "kubernetes-admin");
    assert_eq!(identity.groups, ["system:masters", "system:authenticated"]);
    assert_eq!(
        Identity::of_certificate(&CertificateDer::from_slice(b"nonsense")),
        None
    );
}
