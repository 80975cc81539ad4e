use std::time::{Duration, SystemTime};

use serde_json::json;

use super::keys::{KEY_LIFETIME, Keys};

fn claims_of(keys: &Keys, token: &str) -> Option<serde_json::Value> {
    let bytes = keys.verify(token, |_| true)?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

#[test]
fn verifies_own_tokens_only() {
    let directory = tempfile::tempdir().unwrap();
    let keys = Keys::open(directory.path(), SystemTime::now()).unwrap();
    let claims = json!({"sub": "somebody"});
    let token = keys.sign(&claims).unwrap();
    assert_eq!(claims_of(&keys, &token), Some(claims.clone()));
    for at in [0, token.len() / 2, token.len() - 2] {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(claims_of(&keys, &changed), None, "changed at {at}");
    }
    for malformed in ["", ".", "..", "a.b.c", "e30.e30."] {
        assert_eq!(claims_of(&keys, malformed), None, "{malformed}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let others = Keys::open(elsewhere.path(), SystemTime::now()).unwrap();
    assert_eq!(claims_of(&others, &token), None);
    // A restart reads the same keys.
    let again = Keys::open(directory.path(), SystemTime::now()).unwrap();
    assert_eq!(claims_of(&again, &token), Some(claims));
}

#[test]
fn filters_claims_before_it_verifies_the_signature() {
    let directory = tempfile::tempdir().unwrap();
    let keys = Keys::open(directory.path(), SystemTime::now()).unwrap();
    let token = keys.sign(&json!({"iss": "others"})).unwrap();
    assert_eq!(keys.verify(&token, |_| false), None);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    for odd in ["", &signature[1..], &format!("{signature}A")] {
        let was_called = std::cell::Cell::new(false);
        let verified = keys.verify(&format!("{signed}.{odd}"), |_| {
            was_called.set(true);
            true
        });
        assert_eq!((verified, was_called.get()), (None, false), "{odd}");
    }
}

#[test]
fn replaced_key_still_verifies_its_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let first = Keys::open(directory.path(), now).unwrap();
    let token = first.sign(&json!({"n": 1})).unwrap();
    let later = now + KEY_LIFETIME + Duration::from_secs(3600);
    let second = Keys::open(directory.path(), later).unwrap();
    assert_eq!(claims_of(&second, &token), Some(json!({"n": 1})));
    let new_token = second.sign(&json!({"n": 2})).unwrap();
    assert_eq!(claims_of(&first, &new_token), None);
    assert_eq!(second.jwk_set()["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(second.jwk_set()["keys"][0]["crv"], "P-256");
    // The number of kept keys is bounded.
    for _ in 0..4 {
        Keys::open(directory.path(), later).unwrap();
    }
    let last = Keys::open(directory.path(), later).unwrap();
    assert_eq!(last.jwk_set()["keys"].as_array().map(Vec::len), Some(3));
    assert_eq!(claims_of(&last, &token), None);
}

#[test]
fn error_names_the_malformed_key_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("sa.key"), "malformed").unwrap();
    let error = Keys::open(directory.path(), SystemTime::now())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("sa.key"), "{error}");
}
