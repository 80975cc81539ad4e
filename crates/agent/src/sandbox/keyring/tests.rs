use super::*;

#[test]
fn refused_keyring_stops_containers_that_can_use_keys() {
    let message = |errno: Errno, has_no_access| handle_missing_keyring(&errno.into(), has_no_access);
    for errno in [Errno::NOSYS, Errno::PERM] {
        assert!(message(errno, true).is_ok());
        let error = message(errno, false).unwrap_err().to_string();
        assert!(error.contains("seccompProfile RuntimeDefault"), "{error}");
    }
    let error = message(Errno::DQUOT, true).unwrap_err().to_string();
    assert!(error.contains("kernel.keys.maxkeys"), "{error}");
}
