use http::HeaderValue;

use super::*;

fn with(authorization: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static(authorization));
    headers
}

#[test]
fn a_wrong_token_is_not_made_up_for_by_a_certificate() {
    let authenticator = Authenticator::default();
    let admin = Arc::new(Identity {
        user: "admin".into(),
        uid: String::new(),
        groups: vec![],
    });
    let by = |headers: &HeaderMap, who| authenticator.authenticate(headers, who).map(|i| i.user.clone());
    assert_eq!(by(&HeaderMap::new(), Some(&admin)), Ok("admin".to_owned()));
    assert_eq!(by(&with("Basic YTpi"), Some(&admin)), Ok("admin".to_owned()));
    assert_eq!(
        by(&with("Bearer wrong"), Some(&admin)),
        Err(Failure::unauthorized())
    );
    assert_eq!(by(&HeaderMap::new(), None), Err(Failure::unauthorized()));
    assert_eq!(by(&with("Bearer"), Some(&admin)), Err(Failure::unauthorized()));
}
