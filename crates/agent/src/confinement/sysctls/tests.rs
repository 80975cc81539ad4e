use super::*;

fn spec(host_network: bool, names: &[&str]) -> PodSpec {
    let mut spec = PodSpec {
        host_network,
        ..PodSpec::default()
    };
    spec.security_context.sysctls = names
        .iter()
        .map(|name| Sysctl {
            name: (*name).to_owned(),
            value: "1".to_owned(),
        })
        .collect();
    spec
}

#[test]
fn safe_sysctls_are_permitted() {
    let sysctls = of_pod(&spec(
        false,
        &["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies"],
    ))
    .unwrap();
    let names: Vec<&str> = sysctls.keys().map(String::as_str).collect();
    assert_eq!(names, ["kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies"]);
}

#[test]
fn rejects_other_sysctls_and_those_of_the_host() {
    for name in [
        "kernel.core_pattern",
        "net.core.somaxconn",
        "../../etc/passwd",
        "",
    ] {
        let error = of_pod(&spec(false, &[name])).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("forbidden sysctl: {name:?} not allowlisted")
        );
    }
    assert!(of_pod(&spec(true, &["net.ipv4.tcp_syncookies"])).is_err());
    let mut shared = spec(true, &["kernel.shm_rmid_forced"]);
    assert!(of_pod(&shared).is_ok());
    shared.host_ipc = true;
    assert!(of_pod(&shared).is_err());
}
