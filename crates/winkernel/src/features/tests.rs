use super::*;

fn of(major: u32, minor: u32) -> Features {
    Features::of(HnsVersion { major, minor })
}

#[test]
fn abilities_begin_with_the_versions_of_upstream() {
    assert_eq!(of(9, 1), Features::default());
    assert!(of(9, 2).schema_v2 && of(10, 0).schema_v2);
    assert!(!of(11, 9).dual_stack && of(11, 10).dual_stack);
    assert!(!of(11, 99).session_affinity && of(12, 0).session_affinity);
}

#[test]
fn versions_10_0_and_10_1_lack_direct_server_return() {
    let versions = [(9, 2), (9, 3), (9, 9), (10, 0), (10, 1), (10, 2), (11, 0)];
    let supported = versions.map(|(major, minor)| of(major, minor).dsr);
    assert_eq!(supported, [false, true, true, false, false, true, true]);
}
