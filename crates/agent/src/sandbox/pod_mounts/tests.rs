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
