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
