use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::keeper::look;
use super::*;
use crate::keeper::Look;

fn token(expiration: &str) -> Secret {
    let data = [("token-id", "abcdef"), ("expiration", expiration)];
    Secret {
        metadata: ObjectMeta {
            name: "bootstrap-token-abcdef".to_owned(),
            ..ObjectMeta::default()
        },
        kind: SECRET_TYPE.to_owned(),
        data: data
            .map(|(key, value)| (key.to_owned(), STANDARD.encode(value)))
            .into(),
    }
}

#[test]
fn a_token_goes_when_its_time_is_over() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    assert!(matches!(look(&token("2026-01-01T00:00:00Z"), now), Look::Do(_)));
    let soon = look(&token("2026-01-01T00:00:05Z"), now);
    assert!(matches!(soon, Look::Again(left) if left == Duration::from_secs(5)));
    assert!(matches!(look(&token(""), now), Look::Fine));
    // Nobody knows how long it was meant for.
    assert!(matches!(look(&token("tomorrow"), now), Look::Do(_)));
    let mut other = token("2026-01-01T00:00:00Z");
    other.kind = "Opaque".to_owned();
    assert!(matches!(look(&other, now), Look::Fine));
}
