use super::*;

#[test]
fn default_depends_on_tag_and_digest() {
    let digest = "a".repeat(64);
    let of = |image: &str| PullPolicy::of("", &image.parse().expect("a reference"));
    assert_eq!(of("nginx"), PullPolicy::Always);
    assert_eq!(of("nginx:latest"), PullPolicy::Always);
    assert_eq!(of("nginx:1.27"), PullPolicy::IfNotPresent);
    assert_eq!(of(&format!("nginx@sha256:{digest}")), PullPolicy::IfNotPresent);
}

#[test]
fn explicit_policy_precedes_the_default() {
    let reference = "nginx".parse().expect("a reference");
    assert_eq!(PullPolicy::of("Never", &reference), PullPolicy::Never);
    assert_eq!(
        PullPolicy::of("IfNotPresent", &reference),
        PullPolicy::IfNotPresent
    );
}
