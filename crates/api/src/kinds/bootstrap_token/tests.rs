use super::*;

fn stored(data: Value) -> Value {
    let data: serde_json::Map<String, Value> = data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.clone(),
                STANDARD.encode(value.as_str().unwrap_or_default()).into(),
            )
        })
        .collect();
    json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": SECRET_TYPE, "data": data})
}

#[test]
fn token_has_six_and_sixteen_letters() {
    let token: Token = "abcdef.0123456789abcdef".parse().unwrap();
    assert_eq!(token.to_string(), "abcdef.0123456789abcdef");
    assert_eq!(format!("{token:?}"), "abcdef.…");
    for invalid in [
        "",
        "abcdef",
        "abcde.0123456789abcdef",
        "abcdef.0123456789ABCDEF",
        "abcdef.0123456789abcdef.x",
    ] {
        assert_eq!(invalid.parse::<Token>(), Err(TokenError), "{invalid}");
    }
    let mut numbers = 0..;
    let made = Token::generate(|below| numbers.next().unwrap_or(0) % below);
    assert_eq!(made.to_string().parse::<Token>(), Ok(made));
}

#[test]
fn written_secret_reads_back() {
    let token: Token = "abcdef.0123456789abcdef".parse().unwrap();
    let description = Description {
        text: "for the shelf".to_owned(),
        expiration: Some("2026-01-02T03:04:05Z".to_owned()),
        groups: vec![JOINING_GROUP.to_owned()],
        replaces: Some(("n1".to_owned(), Incarnation::new("uid", ""))),
    };
    let secret = secret(&token, &description);
    let secret = stored(secret["stringData"].clone());
    let read = StoredToken::of(&secret).unwrap();
    assert!(read.is_for_authentication());
    assert_eq!(read.groups().unwrap(), [JOINING_GROUP]);
    assert_eq!(read.replaced_node(), description.replaces);
    assert_eq!(
        (read.get("token-secret"), read.get("description")),
        (token.secret, description.text)
    );
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    assert!(!read.is_expired(at("2026-01-02T03:04:04Z")));
    assert!(read.is_expired(at("2026-01-02T03:04:05Z")));
    assert_eq!(read.seconds_left(at("2026-01-02T03:04:00Z")), Some(5));
}

#[test]
fn rejects_secrets_that_are_not_bootstrap_tokens() {
    let whole =
        stored(json!({"token-id": "abcdef", "expiration": "soon", "auth-extra-groups": "system:masters"}));
    let read = StoredToken::of(&whole).unwrap();
    assert!(read.is_expired(jiff::Timestamp::UNIX_EPOCH) && !read.is_for_authentication());
    assert_eq!(read.groups(), None);
    assert!(StoredToken::of(&stored(json!({"token-id": "another"}))).is_none());
    let mut other = whole.clone();
    other["type"] = json!("Opaque");
    assert!(StoredToken::of(&other).is_none());
}

#[test]
fn accepts_groups_of_bootstrappers_only() {
    assert!(is_extra_group("system:bootstrappers:a-1:b"));
    for invalid in [
        "system:bootstrappers",
        "system:bootstrappers:",
        "system:bootstrappers:a:",
        "system:nodes",
    ] {
        assert!(!is_extra_group(invalid), "{invalid}");
    }
}
