use super::*;

fn read(headers: &[(&'static str, &[u8])]) -> Result<Identity, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let requested = RequestedIdentity::read(&map).map_err(|failure| failure.message().to_owned())?;
    Ok(requested.identity())
}

fn groups(headers: &[(&'static str, &[u8])]) -> Vec<String> {
    read(headers).unwrap().groups
}

#[test]
fn reads_names_in_utf8() {
    let identity = read(&[(USER, "josé".as_bytes()), (GROUP, "équipe".as_bytes())]).unwrap();
    assert_eq!(identity.user, "josé");
    assert_eq!(identity.groups, ["équipe", AUTHENTICATED]);
}

#[test]
fn rejects_headers_that_are_not_utf8() {
    for name in [USER, GROUP, UID, "impersonate-extra-scopes"] {
        let error = read(&[(name, b"jos\xe9")]).unwrap_err();
        assert_eq!(
            error,
            format!("expected UTF-8 in the header {name}, found other bytes; send the name in UTF-8")
        );
    }
}

#[test]
fn rejects_several_users_and_several_uids() {
    for name in [USER, UID] {
        let error = read(&[(name, b"ann"), (name, b"bob")]).unwrap_err();
        assert!(error.contains("found several"), "{error}");
    }
    assert_eq!(groups(&[(USER, b"ann"), (GROUP, b"a"), (GROUP, b"b")]).len(), 3);
}

#[test]
fn adds_implied_groups_as_upstream() {
    let account = b"system:serviceaccount:ns:robot";
    assert_eq!(
        groups(&[(USER, account)]),
        [SERVICE_ACCOUNTS, "system:serviceaccounts:ns", AUTHENTICATED]
    );
    assert_eq!(groups(&[(USER, ANONYMOUS.as_bytes())]), [UNAUTHENTICATED]);
    assert_eq!(
        groups(&[(USER, b"ann"), (GROUP, UNAUTHENTICATED.as_bytes())]),
        [UNAUTHENTICATED]
    );
}

#[test]
fn invalid_names_are_not_service_accounts() {
    assert_eq!(
        service_account("system:serviceaccount:ns:robot"),
        Some(("ns", "robot"))
    );
    for user in [
        "system:serviceaccount:ns:Robot",
        "system:serviceaccount:ns:robot:more",
        "system:serviceaccount::robot",
        "system:serviceaccount:n.s:robot",
        "ann",
    ] {
        assert_eq!(service_account(user), None, "{user}");
    }
}
