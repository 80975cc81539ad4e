use super::*;

/// IPV-05: parameters depend on the kernel and on `strictARP`.
#[test]
fn parameters_follow_kernel_and_strict_arp() {
    let names = |strict_arp, version| -> Vec<&str> {
        let values = optional_parameters(strict_arp, version).into_iter();
        values.map(|(name, _)| name).collect()
    };
    assert!(names(false, Some((5, 4))).contains(&"net/ipv4/vs/conn_reuse_mode"));
    for version in [Some((5, 9)), Some((6, 1)), None] {
        assert!(!names(false, version).contains(&"net/ipv4/vs/conn_reuse_mode"));
    }
    assert!(names(true, None).contains(&"net/ipv4/conf/all/arp_ignore"));
    assert!(!names(false, None).contains(&"net/ipv4/conf/all/arp_ignore"));
}

#[test]
fn release_begins_with_version() {
    assert_eq!(version("6.1.0-56-cloud-amd64\n"), Some((6, 1)));
    assert_eq!(version("5.15.167.4-microsoft"), Some((5, 15)));
    assert_eq!(version("generic"), None);
}
