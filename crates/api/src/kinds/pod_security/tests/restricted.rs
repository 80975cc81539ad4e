//! Tests of the restricted checks with upstream's messages.

use super::*;

#[test]
fn allows_a_compliant_pod_at_every_version() {
    for minor in 0..40 {
        assert_eq!(details(&format!("restricted:v1.{minor}"), &compliant()), "");
    }
    assert_eq!(details("restricted:latest", &compliant()), "");
}

#[test]
fn refuses_a_plain_pod_with_the_complete_message() {
    assert_eq!(
        details("restricted:latest", &container(json!({}))),
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")"
    );
}

#[test]
fn older_versions_have_fewer_checks() {
    let plain = container(json!({}));
    assert_eq!(
        details("restricted:v1.7", &plain),
        "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)"
    );
    assert!(!details("restricted:v1.18", &plain).contains("seccompProfile"));
    assert!(!details("restricted:v1.21", &plain).contains("capabilities"));
}

#[test]
fn reports_capabilities_once() {
    let mut pod = compliant();
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] =
        json!({"drop": ["CHOWN"], "add": ["SYS_ADMIN", "NET_BIND_SERVICE"]});
    assert_eq!(
        details("restricted:latest", &pod),
        "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \
         \"a\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add)"
    );
}

#[test]
fn reports_host_paths_as_restricted_volume_types_only() {
    let mut pod = compliant();
    pod["spec"]["volumes"] = json!([
        {"name": "proc", "hostPath": {"path": "/proc"}},
        {"name": "sys", "hostPath": {"path": "/sys"}},
        {"name": "n", "nfs": {"server": "s", "path": "/"}},
        {"name": "i", "image": {"reference": "r"}},
        {"name": "o", "other": {}},
    ]);
    assert_eq!(
        details("restricted:latest", &pod),
        "restricted volume types (volumes \"proc\", \"sys\", \"n\", \"o\" use restricted volume types \"hostPath\", \
         \"nfs\", \"unknown\")"
    );
}

#[test]
fn containers_that_run_as_root_are_refused() {
    let mut pod = compliant();
    pod["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    pod["spec"]["securityContext"]["runAsUser"] = json!(0);
    pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = json!(0);
    let refusal = "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), \
                   runAsUser=0 (pod and container \"a\" must not set runAsUser=0)";
    assert_eq!(details("restricted:latest", &pod), refusal);
    pod["spec"]["hostUsers"] = json!(false);
    assert_eq!(details("restricted:v1.34", &pod), refusal);
    assert_eq!(details("restricted:v1.35", &pod), "");
}

#[test]
fn reports_unconfined_seccomp_once() {
    let mut pod = compliant();
    pod["spec"]["containers"][0]["securityContext"]["seccompProfile"] = json!({"type": "Unconfined"});
    assert_eq!(
        details("restricted:latest", &pod),
        "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")"
    );
}

#[test]
fn windows_pods_are_exempt_from_linux_checks() {
    let mut pod = pod(json!({"os": {"name": "windows"}, "containers": [{"name": "a"}],
        "securityContext": {"runAsNonRoot": true}}));
    assert_eq!(details("restricted:latest", &pod), "");
    assert!(!details("restricted:v1.24", &pod).is_empty());
    pod["spec"]["os"]["name"] = json!("linux");
    assert!(!details("restricted:latest", &pod).is_empty());
}

#[test]
fn checks_ephemeral_containers() {
    let mut pod = compliant();
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debug"}]);
    let refusal = details("restricted:latest", &pod);
    assert!(
        refusal.contains("container \"debug\" must set securityContext.allowPrivilegeEscalation=false"),
        "{refusal}"
    );
}
