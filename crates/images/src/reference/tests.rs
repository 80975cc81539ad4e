use proptest::prelude::*;

use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn normalized(text: &str) -> String {
    let reference: Reference = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    reference.to_string()
}

#[test]
fn short_names_are_completed_as_docker_does() {
    for (text, expected) in [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("bitnami/redis", "docker.io/bitnami/redis:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("quay.io/nginx", "quay.io/nginx:latest"),
        ("localhost/a/b:c", "localhost/a/b:c"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("registry:5000/a/b__c-d", "registry:5000/a/b__c-d:latest"),
        ("[2001:db8::1]:5000/a", "[2001:db8::1]:5000/a:latest"),
        ("[2001:db8::1]/a", "[2001:db8::1]/a:latest"),
        ("Registry/a", "Registry/a:latest"),
        ("a---b", "docker.io/library/a---b:latest"),
    ] {
        assert_eq!(normalized(text), expected);
    }
}

#[test]
fn digest_makes_a_tag_unnecessary() {
    let reference: Reference = format!("nginx@{DIGEST}").parse().expect("a reference");
    assert_eq!(reference.tag(), None);
    assert_eq!(reference.to_string(), format!("docker.io/library/nginx@{DIGEST}"));
    let reference: Reference = format!("nginx:1@{DIGEST}").parse().expect("a reference");
    assert_eq!(
        (reference.tag(), reference.selector().as_str()),
        (Some("1"), DIGEST)
    );
}

#[test]
fn rejects_other_characters_and_lengths() {
    let long_tag = format!("a:{}", "t".repeat(TAG_LENGTH_MAX + 1));
    let long_name = format!("quay.io/{}", "n".repeat(NAME_LENGTH_MAX));
    let hash = "0".repeat(64);
    for text in [
        "",
        ":tag",
        "@sha256:00",
        "a@",
        "a:",
        "a:b:c",
        "a b",
        "a\n",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "quay.io/..",
        "a..b",
        "a___b",
        "-a",
        "a-",
        "Nginx",
        "quay.io/Nginx",
        "-host.example/a",
        "host..example/a",
        "host.example:/a",
        "host.example:port/a",
        "host.example:70000/a",
        "[::1/a",
        "[::1]5000/a",
        "[host]/a",
        "http://host.example/a",
        "ä",
        &hash,
        &long_tag,
        &long_name,
    ] {
        assert!(text.parse::<Reference>().is_err(), "{text:?}");
    }
}

#[test]
fn upper_case_repository_is_named_in_the_error() {
    let error = "quay.io/Nginx".parse::<Reference>().expect_err("upper case");
    assert_eq!(
        error.to_string(),
        "invalid reference format: repository name (Nginx) must be lowercase"
    );
}

proptest! {
    #[test]
    fn any_text_parses_to_a_stable_reference_or_an_error(text in "\\PC{0,80}") {
        if let Ok(reference) = text.parse::<Reference>() {
            let again: Reference = reference.to_string().parse().expect("normalized form");
            prop_assert_eq!(again, reference);
        }
    }

    #[test]
    fn valid_parts_are_kept(
        registry in "([a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?\\.){1,3}[a-z]{2,3}(:[1-9][0-9]{0,3})?",
        repository in "[a-z0-9]+((\\.|_|__|-{1,3})[a-z0-9]+){0,2}(/[a-z0-9]+){1,2}",
        tag in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,30}",
        has_digest in any::<bool>(),
    ) {
        let suffix = if has_digest { format!("@{DIGEST}") } else { String::new() };
        let text = format!("{registry}/{repository}:{tag}{suffix}");
        let reference: Reference = text.parse().expect("a reference");
        prop_assert_eq!(reference.registry(), &registry);
        prop_assert_eq!(reference.repository(), &repository);
        prop_assert_eq!(reference.tag(), Some(tag.as_str()));
        prop_assert_eq!(reference.to_string(), text);
    }
}
