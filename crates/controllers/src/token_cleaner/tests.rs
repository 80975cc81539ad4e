use reconcile::Action;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::controller::action_for;
use super::*;

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
fn expired_tokens_are_deleted() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    assert!(matches!(
        action_for(&token("2026-01-01T00:00:00Z"), now),
        Action::Run(_)
    ));
    let soon = action_for(&token("2026-01-01T00:00:05Z"), now);
    assert!(matches!(soon, Action::RequeueAfter(left) if left == Duration::from_secs(5)));
    assert!(matches!(action_for(&token(""), now), Action::Done));
    // An invalid expiration counts as expired.
    assert!(matches!(action_for(&token("tomorrow"), now), Action::Run(_)));
    let mut other = token("2026-01-01T00:00:00Z");
    other.kind = "Opaque".to_owned();
    assert!(matches!(action_for(&other, now), Action::Done));
}
