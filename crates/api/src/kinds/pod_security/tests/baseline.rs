//! Tests of the baseline checks with upstream's messages.

use super::*;

#[test]
fn allows_a_plain_pod() {
    assert_eq!(details("baseline:latest", &container(json!({}))), "");
}

#[test]
fn privileged_allows_everything() {
    let pod = context(json!({"privileged": true}));
    assert_eq!(details("privileged:latest", &pod), "");
}

#[test]
fn refuses_privileged_containers() {
    let pod = pod(json!({
        "initContainers": [{"name": "i", "securityContext": {"privileged": true}}],
        "containers": [{"name": "a", "securityContext": {"privileged": true}}, {"name": "b"}],
        "ephemeralContainers": [{"name": "e", "securityContext": {"privileged": true}}],
    }));
    assert_eq!(
        details("baseline:latest", &pod),
        r#"privileged (containers "i", "a", "e" must not set securityContext.privileged=true)"#
    );
}

#[test]
fn refuses_non_default_capabilities_in_user_namespaces_too() {
    let pod = pod(json!({"hostUsers": false, "containers": [
        {"name": "a", "securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}},
    ]}));
    assert_eq!(
        details("baseline:latest", &pod),
        "non-default capabilities (container \"a\" must not include \"NET_RAW\", \"SYS_ADMIN\" in \
         securityContext.capabilities.add)"
    );
}

#[test]
fn refuses_host_namespaces() {
    let pod =
        pod(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true, "containers": [{"name": "a"}]}));
    assert_eq!(
        details("baseline:latest", &pod),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"
    );
}

#[test]
fn refuses_host_paths() {
    let pod = pod(json!({"volumes": [
        {"name": "v", "hostPath": {"path": "/"}},
        {"name": "w", "emptyDir": {}},
        {"name": "x", "hostPath": {"path": "/etc"}},
    ]}));
    assert_eq!(
        details("baseline:latest", &pod),
        r#"hostPath volumes (volumes "v", "x")"#
    );
}

#[test]
fn refuses_host_ports() {
    let one = container(json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}));
    assert_eq!(
        details("baseline:latest", &one),
        r#"hostPort (container "a" uses hostPort 8080)"#
    );
    let two = pod(json!({"containers": [
        {"name": "a", "ports": [{"hostPort": 9}, {"hostPort": 0}]},
        {"name": "b", "ports": [{"hostPort": 80}]},
    ]}));
    assert_eq!(
        details("baseline:latest", &two),
        r#"hostPort (containers "a", "b" use hostPorts 80, 9)"#
    );
}

#[test]
fn refuses_probe_hosts_since_1_34() {
    let pod = container(json!({
        "livenessProbe": {"httpGet": {"host": "169.254.169.254"}},
        "lifecycle": {"preStop": {"tcpSocket": {"host": "10.0.0.1"}}},
    }));
    assert_eq!(details("baseline:v1.33", &pod), "");
    assert_eq!(
        details("baseline:v1.34", &pod),
        "probe or lifecycle host (container \"a\" uses probe or lifecycle hosts \"10.0.0.1\", \"169.254.169.254\")"
    );
}

#[test]
fn refuses_proc_mounts_except_in_user_namespaces_since_1_35() {
    let mut pod = context(json!({"procMount": "Unmasked"}));
    let refusal = r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#;
    assert_eq!(details("baseline:latest", &pod), refusal);
    pod["spec"]["hostUsers"] = json!(false);
    assert_eq!(details("baseline:v1.34", &pod), refusal);
    assert_eq!(details("baseline:v1.35", &pod), "");
    assert!(details("restricted:v1.35", &pod).contains(refusal));
}

#[test]
fn refuses_unconfined_and_unknown_app_armor_profiles() {
    let mut pod = context(json!({"appArmorProfile": {"type": "Unconfined"}}));
    assert_eq!(
        details("baseline:v1.0", &pod),
        r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#
    );
    pod["spec"]["securityContext"] = json!({"appArmorProfile": {"type": "Other"}});
    pod["metadata"]["annotations"] = json!({
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/x",
    });
    assert_eq!(
        details("baseline:latest", &pod),
        "forbidden AppArmor profiles (pod and container \"a\" and annotation must not set AppArmor profile type to \
         \"Other\", \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")"
    );
}

#[test]
fn refuses_se_linux_types_users_and_roles() {
    let pod = context(json!({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}}));
    assert_eq!(
        details("baseline:latest", &pod),
        "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be \
         set; role may not be set)"
    );
    let engine = context(json!({"seLinuxOptions": {"type": "container_engine_t"}}));
    assert!(details("baseline:v1.30", &engine).contains(r#"type "container_engine_t""#));
    assert_eq!(details("baseline:v1.31", &engine), "");
}

#[test]
fn refuses_unconfined_seccomp() {
    let mut pod = context(json!({"seccompProfile": {"type": "Unconfined"}}));
    pod["spec"]["securityContext"] = json!({"seccompProfile": {"type": "Unconfined"}});
    assert_eq!(
        details("baseline:v1.19", &pod),
        "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")"
    );
    assert_eq!(details("baseline:v1.18", &pod), "");
    pod["metadata"]["annotations"] = json!({
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "docker/default",
    });
    assert_eq!(
        details("baseline:v1.18", &pod),
        "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
}

#[test]
fn allows_safe_sysctls_by_version() {
    let pod = pod(json!({"securityContext": {"sysctls": [
        {"name": "net.ipv4.tcp_syncookies"},
        {"name": "net.ipv4.ip_local_reserved_ports"},
        {"name": "net.ipv4.tcp_fin_timeout"},
        {"name": "net.ipv4.tcp_rmem"},
        {"name": "kernel.msgmax"},
    ]}}));
    for (version, forbidden) in [
        (
            "v1.26",
            "net.ipv4.ip_local_reserved_ports, net.ipv4.tcp_fin_timeout, net.ipv4.tcp_rmem, kernel.msgmax",
        ),
        (
            "v1.27",
            "net.ipv4.tcp_fin_timeout, net.ipv4.tcp_rmem, kernel.msgmax",
        ),
        ("v1.29", "net.ipv4.tcp_rmem, kernel.msgmax"),
        ("v1.32", "kernel.msgmax"),
        ("latest", "kernel.msgmax"),
    ] {
        let expected = format!("forbidden sysctls ({forbidden})");
        assert_eq!(details(&format!("baseline:{version}"), &pod), expected);
    }
}

#[test]
fn refuses_windows_host_processes() {
    let pod = context(json!({"windowsOptions": {"hostProcess": true}}));
    assert_eq!(
        details("baseline:latest", &pod),
        "hostProcess (container \"a\" must not set securityContext.windowsOptions.hostProcess=true)"
    );
}
