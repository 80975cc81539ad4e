use super::*;

fn namespace(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

#[test]
fn applies_defaults_without_labels() {
    let (policy, errors) = policy_of_labels(&namespace(json!({"a": "b"})), Policy::PRIVILEGED);
    assert_eq!((policy, errors), (Policy::PRIVILEGED, Vec::new()));
}

#[test]
fn pod_security_policy_is_read_from_labels() {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.25",
        "pod-security.kubernetes.io/warn": "restricted",
    });
    let (read, errors) = policy_of_labels(&namespace(labels), Policy::PRIVILEGED);
    assert!(errors.is_empty());
    assert_eq!(read.enforce, policy("baseline:v1.25"));
    assert_eq!(read.warn, policy("restricted:latest"));
    assert_eq!(read.audit, LevelVersion::PRIVILEGED);
    assert_eq!(read.enforce.to_string(), "baseline:v1.25");
}

#[test]
fn invalid_enforce_labels_mean_restricted() {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "strict",
        "pod-security.kubernetes.io/enforce-version": "1.25",
        "pod-security.kubernetes.io/warn": "x",
    });
    let (read, errors) = policy_of_labels(&namespace(labels), Policy::PRIVILEGED);
    assert_eq!(read.enforce, policy("restricted:latest"));
    assert_eq!(read.warn, LevelVersion::PRIVILEGED);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, \
             baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"1.25\": must be \"latest\" or \
             \"v1.x\"",
            "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"x\": must be one of privileged, \
             baseline, restricted",
        ]
    );
}

#[test]
fn parses_versions_like_upstream() {
    assert_eq!(Version::parse("v1.0"), Ok(Version::Minor(0)));
    assert_eq!(Version::parse("latest"), Ok(Version::Latest));
    for text in [
        "",
        "v1",
        "v1.",
        "v1.01",
        "v1.-1",
        "v1.+1",
        "v2.0",
        "v1.99999999999999999999",
        "v1.1.1",
    ] {
        assert!(Version::parse(text).is_err(), "{text:?}");
    }
}
