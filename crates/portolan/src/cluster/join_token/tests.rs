use super::*;

#[test]
fn hash_of_a_join_token_is_optional() {
    let hash = format!("sha256:{}", "0a".repeat(32));
    let text = format!("abcdef.0123456789abcdef.{hash}");
    let with_hash: JoinToken = text.parse().expect("a token");
    assert_eq!(with_hash.hash, hash.parse().ok());
    assert_eq!(with_hash.to_string(), text);
    let without_hash: JoinToken = "abcdef.0123456789abcdef".parse().expect("a token");
    assert_eq!((without_hash.token, without_hash.hash), (with_hash.token, None));
    for malformed in [
        "abcdef",
        "abcdef.0123456789abcdef.sha256:00",
        "abcdef.0123456789abcdef.md5:00",
        &text.replace('a', "é"),
    ] {
        assert!(malformed.parse::<JoinToken>().is_err(), "{malformed}");
    }
}

/// Returns a self-signed certificate in PEM.
fn certificate() -> String {
    let pair = rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).expect("a certificate");
    pair.cert.pem()
}

#[test]
fn pinned_certificates_are_those_with_the_hash() {
    let (genuine, forged) = (certificate(), certificate());
    let hash = AuthorityHash::of(&genuine).expect("a hash");
    assert_eq!(AuthorityHash::of(&format!("{genuine}{forged}")), Some(hash));
    for text in [
        genuine.clone(),
        format!("{genuine}{forged}"),
        format!("{forged}{genuine}"),
    ] {
        let pinned = hash.pinned(&text);
        assert_eq!(pinned.matches("BEGIN CERTIFICATE").count(), 1, "{text}");
        assert_eq!(AuthorityHash::of(&pinned), Some(hash));
    }
    assert_eq!(hash.pinned(&forged), "");
    assert_eq!(hash.pinned("no certificate"), "");
}

#[test]
fn hash_is_that_of_the_first_certificate_that_tls_reads() {
    let (genuine, forged) = (certificate(), certificate());
    let hidden = genuine.replace("CERTIFICATE", "OTHER");
    assert_eq!(
        AuthorityHash::of(&format!("{hidden}{forged}")),
        AuthorityHash::of(&forged)
    );
}
