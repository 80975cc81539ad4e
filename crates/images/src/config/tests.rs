use serde_json::json;

use super::*;

fn parse(document: serde_json::Value) -> Result<ParsedConfig, ConfigError> {
    ParsedConfig::parse(document.to_string().as_bytes())
}

#[test]
fn defaults_of_a_container_are_read() {
    let parsed = parse(json!({
        "architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z",
        "config": {
            "User": "nginx", "Env": ["PATH=/bin", "EMPTY=", "A=b=c"], "Entrypoint": ["/entry"], "Cmd": ["-g", "x"],
            "WorkingDir": "/srv", "StopSignal": "SIGQUIT", "Labels": {"a": "b"}, "Volumes": {"/data": {}},
            "ExposedPorts": {"80/tcp": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": []},
        "history": [{"created_by": "x"}],
    }))
    .expect("a configuration");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        parsed.defaults,
        ImageConfig {
            entrypoint: vec!["/entry".to_owned()],
            command: vec!["-g".to_owned(), "x".to_owned()],
            environment: vec![pair("PATH", "/bin"), pair("EMPTY", ""), pair("A", "b=c")],
            working_directory: "/srv".to_owned(),
            user: "nginx".to_owned(),
            stop_signal: Some("SIGQUIT".to_owned()),
            labels: BTreeMap::from([pair("a", "b")]),
            volumes: vec!["/data".to_owned()],
        }
    );
    assert_eq!(parsed.platform.to_string(), "linux/amd64");
}

#[test]
fn null_counts_as_absent() {
    let parsed = parse(json!({
        "os": "linux", "architecture": "arm64", "variant": "v8",
        "config": {"Env": null, "Cmd": null, "Entrypoint": null, "Labels": null, "Volumes": null, "User": null},
        "rootfs": {"type": "layers", "diff_ids": null},
    }))
    .expect("a configuration");
    assert_eq!(parsed.defaults, ImageConfig::default());
    assert!(parse(json!({"config": null, "rootfs": {}})).is_ok());
}

#[test]
fn rejects_zero_bytes_and_other_root_file_systems() {
    let rootfs = json!({"type": "layers"});
    let error = parse(json!({"config": {"Cmd": ["a\u{0}b"]}, "rootfs": rootfs})).expect_err("a zero byte");
    assert!(matches!(error, ConfigError::ZeroByte("Cmd")), "{error}");
    let error = parse(json!({"rootfs": {"type": "foreign"}})).expect_err("not layers");
    assert!(matches!(error, ConfigError::RootFileSystem(_)), "{error}");
    assert!(matches!(parse(json!({})), Err(ConfigError::Form(_))));
}

#[test]
fn rejects_another_platform_and_number_of_layers() {
    let parsed =
        parse(json!({"os": "linux", "architecture": "s390x", "rootfs": {}})).expect("a configuration");
    let amd64 = Platform {
        os: "linux".to_owned(),
        architecture: "amd64".to_owned(),
        variant: String::new(),
    };
    let error = parsed.check(&amd64, 0).expect_err("another platform");
    assert_eq!(
        error.to_string(),
        "expected an image for linux/amd64, found one for linux/s390x"
    );
    let error = parsed.check(&parsed.platform, 1).expect_err("another number");
    assert!(
        matches!(
            error,
            ConfigError::Layers {
                manifest: 1,
                config: 0
            }
        ),
        "{error}"
    );
}
