use std::io::Write;

use super::{Config, ConfigError};

fn config_of(text: &str) -> Result<Config, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    Config::from_kubeconfig(file.path())
}

const TOKEN: &str = r#"
apiVersion: v1
kind: Config
current-context: b
contexts:
- {name: a, context: {cluster: none, user: none}}
- {name: b, context: {cluster: c, user: u}}
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}
users:
- name: u
  user: {token: abc}
"#;

#[test]
fn current_context_chooses_cluster_and_user() {
    let config = config_of(TOKEN).expect("a valid kubeconfig");
    assert_eq!(config.server, "https://127.0.0.1:6443");
    assert_eq!(config.token.as_deref(), Some("abc"));
    assert!(config.insecure_skip_tls_verify);
}

#[test]
fn reads_kubeconfig_in_json() {
    let json = r#"{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
        "clusters":[{"name":"k","cluster":{"server":"http://h:1"}}],
        "users":[{"name":"u","user":{"client-certificate-data":"QQ==","client-key-data":"Qg=="}}]}"#;
    let config = config_of(json).expect("a valid kubeconfig");
    assert_eq!(config.client_certificate, Some((b"A".to_vec(), b"B".to_vec())));
}

#[test]
fn error_names_undefined_entry() {
    let error = config_of(&TOKEN.replace("user: u}", "user: x}")).expect_err("user x is not there");
    assert!(error.to_string().contains("user \"x\" is not defined"), "{error}");
}

#[test]
fn syntax_error_contains_no_secret() {
    let error = config_of(&TOKEN.replace("{token: abc}", "{token: abc")).expect_err("invalid YAML");
    let text = error.to_string();
    assert!(text.contains("line ") && !text.contains("abc"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn rejects_users_with_exec_by_name() {
    let error = config_of(&TOKEN.replace("{token: abc}", "{exec: {command: x}}")).expect_err("unsupported");
    assert!(
        matches!(error, ConfigError::Unsupported { field: "exec", .. }),
        "{error}"
    );
}
