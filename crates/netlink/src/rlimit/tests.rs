use super::*;

#[test]
fn soft_limit_reaches_hard_limit() {
    let raised = raise_open_files().expect("a process may raise its soft limit");
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
    assert_eq!(raised, limit.maximum.unwrap_or(u64::MAX));
    assert_eq!(open_files(), raised);
}
