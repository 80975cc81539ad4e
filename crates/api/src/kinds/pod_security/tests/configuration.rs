use super::*;

fn read(body: Value) -> Result<Configuration, String> {
    let mut file =
        json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    for (key, value) in body.as_object().expect("fields") {
        file[key] = value.clone();
    }
    Configuration::read(file).map_err(|error| error.to_string())
}

#[test]
fn reads_defaults_and_exemptions() {
    let configuration = read(json!({
        "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
        "exemptions": {"usernames": ["u"], "namespaces": ["kube-system"], "runtimeClasses": ["gvisor"]},
    }))
    .expect("configuration");
    assert_eq!(configuration.defaults.enforce, policy("baseline:v1.30"));
    assert_eq!(configuration.defaults.warn, policy("restricted:latest"));
    assert_eq!(configuration.defaults.audit, LevelVersion::PRIVILEGED);
    let exemptions = &configuration.exemptions;
    assert!(exemptions.has_user("u") && !exemptions.has_user("v") && !exemptions.has_user(""));
    assert!(exemptions.has_namespace("kube-system") && exemptions.has_runtime_class("gvisor"));
}

#[test]
fn has_no_exemptions_by_default() {
    assert_eq!(read(json!({})), Ok(Configuration::default()));
}

#[test]
fn rejects_unknown_fields() {
    let error = read(json!({"defaults": {"enforced": "baseline"}})).expect_err("invalid configuration");
    assert!(
        error.starts_with("strict decoding error: unknown field `enforced`"),
        "{error}"
    );
}

#[test]
fn configuration_of_another_kind_is_rejected() {
    let file = json!({"apiVersion": "v1", "kind": "Pod"});
    let error = Configuration::read(file)
        .expect_err("invalid configuration")
        .to_string();
    assert!(
        error.contains("found apiVersion \"v1\" and kind \"Pod\""),
        "{error}"
    );
}

#[test]
fn reports_invalid_values_with_upstream_messages() {
    let error = read(json!({
        "defaults": {"enforce": "strict", "audit-version": "1"},
        "exemptions": {"usernames": ["", "u", "u"], "namespaces": ["A", "b", "b"]},
    }));
    assert_eq!(
        error.expect_err("invalid configuration"),
        "defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
         defaults.audit-version: Invalid value: \"1\": must be \"latest\" or \"v1.x\", \
         exemptions.namespaces[0]: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case \
         alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
         '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), \
         exemptions.namespaces[2]: Duplicate value: \"b\", \
         exemptions.usernames[0]: Required value, exemptions.usernames[2]: Duplicate value: \"u\""
    );
}
