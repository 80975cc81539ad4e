use client::{Client, Config};
use http::header::{COOKIE, HeaderMap};

use super::*;
use crate::feed::{Feed, KINDS_OF_USERS};
use crate::server::access::{Access, Authentication, User};

const RESPONSES: usize = 32;

/// Returns the state of a server with the sessions of users. Nothing listens at the address of the API.
async fn state_of(names: &[&str]) -> (Arc<SharedState>, Vec<SessionId>) {
    let config = Config {
        server: "http://127.0.0.1:1".to_owned(),
        ..Config::default()
    };
    let client = Client::new(config).expect("a client");
    let access = Access::by_secret("ann", Box::new(|_| {})).expect("a secret");
    let feed = Feed::new(client, "production", &KINDS_OF_USERS);
    let state = Arc::new(SharedState::new(feed, access, 1, "cluster.local"));
    let mut sessions = Vec::new();
    for name in names {
        let user = User {
            user: (*name).to_owned(),
            authentication: Authentication::Local,
        };
        let cookie = state.sessions.begin(user, None).expect("a session");
        let pair = cookie.split(';').next().expect("a pair");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::try_from(pair).expect("a header"));
        let id = state.sessions.authorize(&headers, &state.access).await;
        sessions.push(id.expect("a session"));
    }
    (state, sessions)
}

#[tokio::test(start_paused = true)]
async fn stalled_reader_does_not_hold_a_response() {
    let (state, sessions) = state_of(&["ann"]).await;
    let permit = ResponsePermit::take(&state, sessions[0]).expect("a permit");
    let mut body = respond(vec![b' '; 1 << 20], permit).into_body();
    let first = body.frame().await.expect("a frame").expect("data");
    assert_eq!(first.into_data().expect("data").len(), PIECE_BYTES);
    tokio::time::sleep(DELIVERY_TIMEOUT / 2).await;
    assert_eq!(state.responses.available_permits(), RESPONSES - 1);
    tokio::time::sleep(DELIVERY_TIMEOUT).await;
    assert_eq!(state.responses.available_permits(), RESPONSES);
    let mut rest = 0;
    while let Some(frame) = body.frame().await {
        rest += frame.expect("a frame").into_data().expect("data").len();
    }
    assert!(
        rest <= PIECE_BYTES,
        "only the piece in the channel is left: {rest}"
    );
}

#[tokio::test(start_paused = true)]
async fn response_is_complete_and_returns_its_permit() {
    let (state, sessions) = state_of(&["ann"]).await;
    let permit = ResponsePermit::take(&state, sessions[0]).expect("a permit");
    let response = respond(vec![b' '; PIECE_BYTES * 2 + 1], permit);
    assert_eq!(
        response.headers()[CONTENT_LENGTH],
        (PIECE_BYTES * 2 + 1).to_string()
    );
    let body = response.into_body().collect().await.expect("a body");
    assert_eq!(body.to_bytes().len(), PIECE_BYTES * 2 + 1);
    tokio::task::yield_now().await;
    assert_eq!(state.responses.available_permits(), RESPONSES);
}

#[tokio::test(start_paused = true)]
async fn one_user_does_not_hold_all_responses() {
    let (state, sessions) = state_of(&["mallory", "ann", "mallory", "mallory"]).await;
    let take = |session: SessionId| ResponsePermit::take(&state, session);
    let mut held: Vec<_> = std::iter::from_fn(|| take(sessions[0]).ok()).take(100).collect();
    // The end of a session does not return the permits of its responses.
    state.sessions.end(sessions[0]);
    held.extend(sessions[2..].iter().filter_map(|session| take(*session).ok()));
    assert_eq!(held.len(), RESPONSES / 2);
    let refusal = take(sessions[2]).err().expect("a refusal");
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(state.responses.available_permits(), RESPONSES - held.len());
    assert!(take(sessions[1]).is_ok());
    drop(held);
    assert!(take(sessions[2]).is_ok());
}
