use serde_json::json;

use super::*;

fn digest(number: usize) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    digest
}

fn keep(signatures: &Signatures, number: usize) {
    let claims = json!({"aud": [], "exp": 0, "iat": 0, "iss": "", "sub": "",
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": "c"}}});
    let verified = Verified {
        claims: serde_json::from_value(claims).unwrap(),
        identity: Arc::default(),
    };
    signatures.keep(digest(number), verified);
}

#[test]
fn tokens_in_use_stay_known_and_their_number_is_bounded() {
    let signatures = Signatures::default();
    keep(&signatures, 0);
    for number in 1..10 * GENERATION_MAX {
        keep(&signatures, number);
        assert!(signatures.known(&digest(0)).is_some(), "{number}");
    }
    assert!(signatures.known(&digest(1)).is_none());
    let known = signatures.read();
    assert!(known.young.len() + known.old.len() <= 2 * GENERATION_MAX);
    drop(known);
    signatures.forget();
    assert!(signatures.known(&digest(0)).is_none());
}

#[test]
fn an_address_has_only_so_many_wrong_signatures_checked() {
    let signatures = Signatures::default();
    let [one, other] = [1, 2].map(|last| Some(Source::from(std::net::IpAddr::from([192, 0, 2, last]))));
    for _ in 0..10 * WRONG_PER_SECOND {
        signatures.count_wrong(one);
    }
    assert!(!signatures.may_check(one));
    assert!(signatures.may_check(other));
    assert!(signatures.may_check(None));
}
