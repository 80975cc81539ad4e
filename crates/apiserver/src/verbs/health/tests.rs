use super::*;

#[test]
fn failed_check_fails_the_endpoint_unless_excluded() {
    let faults = [(Check::Ping, false), (Check::Store, true)];
    let (is_healthy, text) = summary("readyz", &faults, &[]);
    assert!(!is_healthy);
    assert_eq!(
        text,
        "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
    );
    let (is_healthy, text) = summary("livez", &faults, &["etcd", "nonsense"]);
    assert!(is_healthy);
    assert_eq!(
        text,
        "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
         \"nonsense\"\nlivez check passed\n"
    );
}
