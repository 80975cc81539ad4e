use serde_json::json;

use super::*;

fn digest(number: usize) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    digest
}

fn insert(signatures: &Signatures, number: usize) {
    let claims = json!({"aud": [], "exp": 0, "iat": 0, "iss": "", "sub": "",
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": "c"}}});
    let verified = VerifiedToken {
        claims: serde_json::from_value(claims).unwrap(),
        identity: Arc::default(),
    };
    signatures.insert(digest(number), verified);
}

#[test]
fn cache_keeps_tokens_in_use_and_is_bounded() {
    let signatures = Signatures::default();
    insert(&signatures, 0);
    for number in 1..10 * GENERATION_MAX {
        insert(&signatures, number);
        assert!(signatures.get(&digest(0)).is_some(), "{number}");
    }
    assert!(signatures.get(&digest(1)).is_none());
    let generations = signatures.read();
    assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_MAX);
    drop(generations);
    signatures.clear();
    assert!(signatures.get(&digest(0)).is_none());
}

#[test]
fn invalid_signatures_are_limited_for_each_address() {
    let signatures = Signatures::default();
    let [one, other] = [1, 2].map(|last| Some(Source::from(std::net::IpAddr::from([192, 0, 2, last]))));
    for _ in 0..10 * INVALID_PER_SECOND {
        signatures.count_invalid(one);
    }
    assert!(!signatures.may_verify(one));
    assert!(signatures.may_verify(other));
    assert!(signatures.may_verify(None));
}
