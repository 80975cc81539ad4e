use super::*;

fn named(annotations: &[(&str, &str)]) -> Vec<String> {
    let secrets = named_secrets(annotations.iter().copied());
    let text = |secret: &SecretName| match &secret.namespace {
        Some(namespace) => format!("{namespace}/{}", secret.name),
        None => secret.name.to_string(),
    };
    secrets.iter().map(text).collect()
}

#[test]
fn reads_every_form_of_a_name() {
    let names = named(&[
        ("portolan.dev/edge-certificates", "one, other/two"),
        (
            "service.beta.kubernetes.io/aws-load-balancer-ssl-cert",
            "arn:aws:acm:x:1:certificate/three",
        ),
        (
            "loadbalancer.openstack.org/default-tls-container-ref",
            "https://keys.example.com/v1/four",
        ),
    ]);
    assert_eq!(names, ["one", "other/two", "three", "four"]);
}

#[test]
fn ignores_other_annotations_and_malformed_names() {
    let names = named(&[
        ("example.com/edge-certificates", "one"),
        ("portolan.dev/edge-certificates", "two,../three"),
        ("portolan.dev/edge-proxy-protocol", "four"),
    ]);
    assert_eq!(names, Vec::<String>::new());
}

#[test]
fn refuses_lists_that_are_too_long() {
    let list = |count: usize| vec!["name"; count].join(",");
    assert_eq!(
        parse(&list(SECRETS_MAX)).map(|secrets| secrets.len()),
        Some(SECRETS_MAX)
    );
    assert_eq!(parse(&list(SECRETS_MAX + 1)), None);
}

#[test]
fn allows_the_listed_namespaces() {
    assert!(is_namespace_allowed("a, b", "b") && is_namespace_allowed("*", "b"));
    assert!(!is_namespace_allowed("", "b") && !is_namespace_allowed("bb", "b"));
}
