//! Challenges, credentials and `hosts.toml` without requests.

use super::super::challenge::Challenge;
use super::super::credentials::matching_credentials;
use super::super::hosts::hosts;
use super::*;

#[test]
fn challenges_are_parsed() {
    let bearer = Challenge::parse(
        r#"Bearer realm="https://auth.example/token",service="a,b \"c\"",scope="x:y:pull,push""#,
    );
    assert_eq!(
        bearer,
        Some(Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("a,b \"c\"".to_owned()),
        })
    );
    assert_eq!(
        Challenge::parse("bearer realm=https://a"),
        Challenge::parse("Bearer realm=\"https://a\"")
    );
    assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
    for header in [
        "",
        "Digest realm=\"x\"",
        "Bearer",
        "Bearer realm=\"open",
        "Bearer service=\"x\"",
    ] {
        assert_eq!(Challenge::parse(header), None, "{header}");
    }
}

#[test]
fn docker_configurations_are_read() {
    let content = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "dXNlcjpwYTpzcw=="},
        "quay.io": {"username": "a", "password": "b"}, "x.example": {"identitytoken": "t"}}, "credsStore": "none"}"#;
    let credentials = parse_docker_credentials(content).expect("credentials");
    assert_eq!(
        credentials,
        [
            credential("https://index.docker.io/v1/", "user", "pa:ss"),
            credential("quay.io", "a", "b"),
            credential("x.example", "<token>", "t"),
        ]
    );
    assert_eq!(
        matching_credentials(&credentials, "docker.io", "library/nginx").len(),
        1
    );
    let older = br#"{"quay.io": {"auth": "dXNlcjpwYXNz"}}"#;
    assert_eq!(
        parse_docker_credentials(older).expect("credentials"),
        [credential("quay.io", "user", "pass")]
    );
    let invalid =
        parse_docker_credentials(br#"{"auths": {"a": {"auth": "c2VjcmV0"}}}"#).expect_err("no colon");
    assert!(!invalid.to_string().contains("secret") && !format!("{credentials:?}").contains("pa:ss"));
    assert!(parse_docker_credentials(b"[]").is_err());
}

#[test]
fn most_specific_credential_comes_first() {
    let credentials = [
        "registry.example",
        "registry.example/team",
        "*.example",
        "other.example",
        "registry.example/tea",
    ];
    let credentials = credentials.map(|registry| credential(registry, registry, "x"));
    let found = matching_credentials(&credentials, "registry.example", "team/web");
    let found: Vec<&str> = found
        .iter()
        .map(|credential| credential.username.as_str())
        .collect();
    assert_eq!(found, ["registry.example/team", "registry.example", "*.example"]);
    assert!(
        matching_credentials(&credentials, "a.b.example", "x").is_empty(),
        "a star stands for one label"
    );
    assert!(
        matching_credentials(&credentials, "registry.example:5000", "x").is_empty(),
        "another port"
    );
}

fn bases(registry: &str, file: &str) -> Result<Vec<String>, String> {
    let host = Host::new();
    host.configure(registry, file);
    let reference: Reference = format!("{registry}/a").parse().expect("a name");
    let directory = host.directory.path().join("certs.d");
    let hosts = hosts(Some(&directory), &reference).map_err(|error| error.to_string())?;
    Ok(hosts.iter().map(|host| host.base.to_string()).collect())
}

#[test]
fn hosts_are_used_in_the_order_of_the_file() {
    let file = "server = \"https://z.example\"\n[host.\"https://b.example\"]\n[host.\"http://a.example:5000/path\"]\n\
                [host.\"https://c.example/x\"]\noverride_path = true\n";
    let expected = [
        "https://b.example/v2",
        "http://a.example:5000/path/v2",
        "https://c.example/x",
        "https://z.example/v2",
    ];
    assert_eq!(bases("registry.example", file).expect("hosts"), expected);
    assert_eq!(
        bases("registry.example", "").expect("hosts"),
        ["https://registry.example/v2"]
    );
    for file in [
        "[host.\"ftp://a.example\"]",
        "[host.\"https://user:secret@a.example\"]",
        "[host.\"https://a.example\"]\nclient = \"c.pem\"",
        "[host.\"https://a.example\"]\nca = \"missing.pem\"",
        "[host.\"https://a.example\"]\nskip_verify = \"yes\"",
        "[host.\"https://a.example\"]\n[host.\"https://a.example\".header]\n\"a b\" = \"c\"",
        "server = ",
    ] {
        assert!(bases("registry.example", file).is_err(), "{file}");
    }
}

#[test]
fn registries_without_file_have_defaults() {
    for (name, base) in [
        ("nginx", "https://registry-1.docker.io/v2"),
        ("quay.io/a", "https://quay.io/v2"),
        ("localhost:5000/a", "http://localhost:5000/v2"),
        ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2"),
        ("[::1]:5000/a", "http://[::1]:5000/v2"),
        ("127.example:5000/a", "https://127.example:5000/v2"),
    ] {
        let reference: Reference = name.parse().expect("a name");
        let hosts = hosts(None, &reference).expect("hosts");
        assert_eq!((hosts.len(), hosts[0].base.as_str()), (1, base));
    }
}
