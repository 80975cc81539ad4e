use super::*;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Outer(#[from] UsageError);

#[test]
fn usage_errors_are_found_among_causes() {
    assert!(is_usage(&UsageError::new("--ttl is too long")));
    assert!(is_usage(&Outer(UsageError::new("--ttl is too long"))));
    assert!(!is_usage(&io::Error::other("disk failure")));
}
