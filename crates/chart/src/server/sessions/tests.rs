use client::Config;
use http::header::HeaderValue;

use super::*;
use crate::server::access::Authentication;

fn user(name: &str) -> User {
    User {
        user: name.to_owned(),
        authentication: Authentication::Local,
    }
}

fn local() -> Access {
    Access::by_secret("ann", Box::new(|_| {})).expect("a secret")
}

fn with_cookie(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let pair = cookie.split(';').next().unwrap_or_default();
    let value = format!("other=1; {pair}; more=2");
    headers.insert(COOKIE, HeaderValue::try_from(value).expect("a header"));
    headers
}

#[tokio::test(start_paused = true)]
async fn session_has_a_cookie_and_an_end() {
    let (sessions, access) = (Sessions::new(10_280), local());
    let cookie = sessions.begin(user("ann"), None).expect("a session");
    assert!(cookie.starts_with("portolan-chart-10280="), "{cookie}");
    for attribute in ["; HttpOnly", "; SameSite=Strict", "; Max-Age=28800"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains("Path") && !cookie.contains("Domain"), "{cookie}");
    let headers = with_cookie(&cookie);
    let id = sessions.authorize(&headers, &access).await.expect("a session");
    assert_eq!(sessions.user(id), Some(user("ann")));
    assert!(sessions.authorize(&HeaderMap::new(), &access).await.is_err());
    let other = with_cookie("portolan-chart-10280=AAAA");
    assert!(sessions.authorize(&other, &access).await.is_err());
    let of_other_port = Sessions::new(10_281);
    assert!(of_other_port.authorize(&headers, &access).await.is_err());
    tokio::time::advance(LIFETIME).await;
    assert!(
        sessions.authorize(&headers, &access).await.is_err(),
        "the session has ended"
    );
    assert_eq!(sessions.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn logins_of_one_user_do_not_end_sessions_of_others() {
    let (sessions, access) = (Sessions::new(1), local());
    let of_ann = sessions.begin(user("ann"), None).expect("a session");
    let first = sessions.begin(user("mallory"), None).expect("a session");
    for _ in 0..SESSIONS_MAX * 3 {
        tokio::time::advance(Duration::from_millis(1)).await;
        sessions.begin(user("mallory"), None).expect("a session");
    }
    assert_eq!(sessions.count(), 1 + SESSIONS_OF_USER_MAX);
    assert!(sessions.authorize(&with_cookie(&first), &access).await.is_err());
    assert!(sessions.authorize(&with_cookie(&of_ann), &access).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn user_with_the_most_sessions_loses_one_when_all_are_used() {
    let (sessions, access) = (Sessions::new(1), local());
    let of_ann = sessions.begin(user("ann"), None).expect("a session");
    for number in 0..SESSIONS_MAX * 3 {
        tokio::time::advance(Duration::from_millis(1)).await;
        let name = format!("user-{}", number % 12);
        sessions.begin(user(&name), None).expect("a session");
        assert!(sessions.count() <= SESSIONS_MAX);
    }
    assert_eq!(sessions.count(), SESSIONS_MAX);
    assert!(sessions.authorize(&with_cookie(&of_ann), &access).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_traces_and_streams_of_a_session_are_bounded() {
    let (sessions, access) = (Sessions::new(1), local());
    let cookie = sessions.begin(user("ann"), None).expect("a session");
    let id = sessions
        .authorize(&with_cookie(&cookie), &access)
        .await
        .expect("a session");
    let traces = (0..100).filter(|_| sessions.permit_trace(id).is_ok()).count();
    assert_eq!(traces, 10);
    let requests = (0..1_000).filter(|_| sessions.permit_request(id).is_ok()).count();
    assert_eq!(requests, 99, "the authorization took the first permit");
    let streams = (0..100).filter(|_| sessions.begin_stream(id).is_ok()).count();
    assert_eq!(streams, STREAMS_OF_USER_MAX);
    sessions.end_stream(&user("ann"));
    assert!(sessions.begin_stream(id).is_ok() && sessions.begin_stream(id).is_err());
}

/// Nothing listens at the address, so the API decides nothing.
#[tokio::test]
async fn session_shows_nothing_while_the_api_does_not_decide() {
    let access = Access::by_token(&Config {
        server: "http://127.0.0.1:1".to_owned(),
        ..Config::default()
    });
    let sessions = Sessions::new(1);
    let cookie = sessions
        .begin(user("ann"), Some("token".to_owned()))
        .expect("a session");
    let headers = with_cookie(&cookie);
    assert!(
        sessions.authorize(&headers, &access).await.is_ok(),
        "the check is recent"
    );
    tokio::time::pause();
    tokio::time::advance(CHECK_PERIOD).await;
    tokio::time::resume();
    let refusal = sessions
        .authorize(&headers, &access)
        .await
        .expect_err("a refusal");
    assert_eq!(refusal.status, http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(sessions.count(), 1);
}
