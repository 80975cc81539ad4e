use super::*;

#[test]
fn path_without_access_needs_no_mask_if_the_pod_has_one_user() {
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    let missing = io::Error::from(io::ErrorKind::NotFound);
    let other = io::Error::from(io::ErrorKind::NotADirectory);
    let (one, all) = (IdMap::parse("0 1000 1\n"), IdMap::parse("0 0 4294967295\n"));
    assert!(is_unreachable(&denied, &one) && is_unreachable(&missing, &all));
    assert!(!is_unreachable(&denied, &all) && !is_unreachable(&other, &one));
    assert!(!is_unreachable(&denied, &IdMap::default()));
}

#[test]
fn pod_without_a_proc_of_its_own_fails_unless_it_has_host_pid() {
    let refused = io::Error::from(io::ErrorKind::PermissionDenied);
    let error = handle_missing_proc(&refused, false).unwrap_err().to_string();
    assert!(error.starts_with("mounting /proc of the Pod: "), "{error}");
    assert!(error.contains("run the agent on the host"), "{error}");
    let other = io::Error::from(io::ErrorKind::NotFound);
    assert_eq!(
        handle_missing_proc(&other, false).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert!(handle_missing_proc(&refused, true).is_ok());
}
