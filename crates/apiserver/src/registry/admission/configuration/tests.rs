use std::fs;

use api::pod_security::{Level, Version};

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
const SETTINGS: &str = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                        defaults: {enforce: baseline, enforce-version: v1.30}\nexemptions: {usernames: [u]}\n";

fn read(text: &str) -> Result<AdmissionConfiguration, String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("pod-security.yaml"), SETTINGS).expect("the settings");
    let path = directory.path().join("admission.yaml");
    fs::write(&path, text).expect("the configuration");
    AdmissionConfiguration::read(&path).map_err(|error| error.to_string())
}

#[test]
fn reads_settings_inline_or_from_a_path() {
    let inline: String = SETTINGS.lines().map(|line| format!("    {line}\n")).collect();
    let inline = read(&format!(
        "{HEAD}plugins:\n- name: PodSecurity\n  configuration:\n{inline}"
    ));
    let beside = read(&format!(
        "{HEAD}plugins:\n- {{name: PodSecurity, path: pod-security.yaml}}\n"
    ));
    assert_eq!(inline, beside);
    let enforce = inline
        .expect("a valid configuration")
        .pod_security
        .defaults
        .enforce;
    assert_eq!(
        (enforce.level, enforce.version),
        (Level::Baseline, Version::Minor(30))
    );
}

#[test]
fn has_defaults_without_plugins() {
    assert_eq!(read(HEAD), Ok(AdmissionConfiguration::default()));
}

#[test]
fn rejects_configurations_that_it_cannot_apply() {
    for (text, fault) in [
        (
            "kind: Pod\napiVersion: v1\n".to_owned(),
            "expected apiVersion apiserver.config.k8s.io/v1",
        ),
        (
            format!("{HEAD}plugins: [{{name: ImagePolicyWebhook}}]\n"),
            "only PodSecurity has settings",
        ),
        (format!("{HEAD}plugin: []\n"), "unknown field"),
        (
            format!("{HEAD}plugins: [{{name: PodSecurity, path: missing.yaml}}]\n"),
            "cannot read",
        ),
        (
            format!("{HEAD}plugins: [{{name: PodSecurity, configuration: {{kind: X}}}}]\n"),
            "kind \"X\"",
        ),
    ] {
        let error = read(&text).expect_err("an invalid configuration");
        assert!(error.contains(fault), "{error}");
    }
}
