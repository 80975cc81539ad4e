use super::*;

#[test]
fn a_token_may_carry_the_hash() {
    let hash = format!("sha256:{}", "0a".repeat(32));
    let text = format!("abcdef.0123456789abcdef.{hash}");
    let whole: JoinToken = text.parse().expect("a token");
    assert_eq!(whole.hash, hash.parse().ok());
    assert_eq!(whole.to_string(), text);
    let plain: JoinToken = "abcdef.0123456789abcdef".parse().expect("a token");
    assert_eq!((plain.token, plain.hash), (whole.token, None));
    for bad in [
        "abcdef",
        "abcdef.0123456789abcdef.sha256:00",
        "abcdef.0123456789abcdef.md5:00",
        &text.replace('a', "é"),
    ] {
        assert!(bad.parse::<JoinToken>().is_err(), "{bad}");
    }
}
