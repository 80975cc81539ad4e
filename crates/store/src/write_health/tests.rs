use super::*;
use crate::StoreError;

#[test]
fn failure_lasts_until_a_write_succeeds() {
    let health = WriteHealth::default();
    assert_eq!(health.failure(), None);
    let error = StoreError::Unavailable {
        reason: "disk full".to_owned(),
    };
    health.record(&Err(error.into()));
    let conflict = CommitError::Conflict {
        key: "/a".into(),
        current: None,
    };
    health.record(&Err(conflict));
    assert_eq!(
        health.failure().as_deref(),
        Some("the store is unavailable: disk full")
    );
    health.record(&Ok(Revision(7)));
    assert_eq!(health.failure(), None);
}
