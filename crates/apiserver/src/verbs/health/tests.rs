use super::*;

#[test]
fn one_failed_check_fails_the_whole_unless_it_is_excluded() {
    let faults = [(Check::Ping, false), (Check::Store, true)];
    let (is_well, text) = summary("readyz", &faults, &[]);
    assert!(!is_well);
    assert_eq!(
        text,
        "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
    );
    let (is_well, text) = summary("livez", &faults, &["etcd", "nonsense"]);
    assert!(is_well);
    assert_eq!(
        text,
        "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
         \"nonsense\"\nlivez check passed\n"
    );
}
