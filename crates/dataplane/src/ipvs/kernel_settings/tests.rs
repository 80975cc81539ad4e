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

/// IPV-05, KPF-24: strict ARP and forwarding in the kernel, with or without IPVS.
#[test]
fn kernel_has_parameters_after_write() {
    testbed::in_namespace(|| {
        let read = |name: &str| std::fs::read_to_string(Path::new(PARAMETERS).join(name)).unwrap();
        let values = || {
            ["conf/all/arp_ignore", "conf/all/arp_announce", "ip_forward"]
                .map(|name| read(&format!("net/ipv4/{name}")).trim().to_owned())
        };
        for name in ["conf/all/arp_ignore", "conf/all/arp_announce", "ip_forward"] {
            write(&format!("net/ipv4/{name}"), "0").unwrap();
        }
        write_optional(false);
        assert_eq!(values(), ["0", "0", "1"]);
        write_optional(true);
        assert_eq!(values(), ["1", "2", "1"]);
        if !Path::new(PARAMETERS).join(CONNECTION_TRACKING).exists() {
            assert_eq!(
                write_parameters(true).unwrap_err().kind(),
                io::ErrorKind::NotFound,
                "without connection tracking of virtual servers, the mode is not usable"
            );
        }
    });
}

#[test]
fn release_begins_with_version() {
    assert_eq!(version("6.1.0-56-cloud-amd64\n"), Some((6, 1)));
    assert_eq!(version("5.15.167.4-microsoft"), Some((5, 15)));
    assert_eq!(version("generic"), None);
}
