use super::*;

#[test]
fn missing_privileges_are_one_warning() {
    let mut gaps = Gaps::default();
    let denied = || io::Error::from_raw_os_error(libc::EPERM);
    assert_eq!(
        gaps.take::<()>("tables", Err(ReadError::NotPermitted.into())),
        None
    );
    assert_eq!(gaps.take::<()>("Pods", Err(denied().into())), None);
    assert_eq!(gaps.take("links", Ok(1)), Some(1));
    let mut other = Gaps::default();
    let failure = ReadFailure::from(io::Error::from_raw_os_error(libc::ENODEV));
    assert_eq!(other.take::<()>("routes", Err(failure)), None);
    other.truncate("flows");
    gaps.merge(other);
    assert_eq!(
        gaps.warnings(),
        [
            "routes not read: No such device (os error 19)",
            "not permitted to read Pods, tables: run as root",
            "only a part is read of flows",
        ]
    );
    assert_eq!(gaps.truncated(), ["flows"]);
    assert!(Gaps::default().warnings().is_empty());
}
