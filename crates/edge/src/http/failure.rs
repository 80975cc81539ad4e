//! Requests that no backend answers, and what their clients are told. What the log keeps says more.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::account::Account;
use super::answer_body::AnswerBody;
use super::refusal::Refusal;
use super::wire::WireError;
use crate::outbound::ConnectError;

/// Why no backend answers.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It is not passed on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is nobody to pass it on to. It may be again in a moment.
    #[error("no backend is available")]
    NoBackend,
    /// None of those that were tried takes connections. It may be again in a moment.
    #[error("no backend could be reached; the last one: {0}")]
    Unreachable(#[source] ConnectError),
    /// The backend broke off. Whether it has done what was asked is not known.
    #[error("the backend failed: {0}")]
    Broken(#[source] WireError),
    /// The backend changes to a protocol that nobody asked for.
    #[error("the backend answered with an upgrade that was not asked for")]
    UnaskedUpgrade,
    /// The backend did not answer in time.
    #[error("the backend did not answer in time")]
    Timeout,
    /// The backend left before it answered.
    #[error("the backend left before it answered")]
    BackendLeft,
}

impl Failure {
    fn status(&self) -> StatusCode {
        match self {
            Self::Refused(refusal) => refusal.status(),
            Self::NoBackend => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(_) | Self::Broken(_) | Self::UnaskedUpgrade | Self::BackendLeft => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::Slow) => "client too slow",
            Self::Refused(_) => "refused",
            Self::NoBackend => "no backend",
            Self::Unreachable(_) | Self::Broken(_) | Self::UnaskedUpgrade => "backend failed",
            Self::Timeout => "timeout",
            Self::BackendLeft => "backend left",
        }
    }

    /// What the client is told: nothing of backends.
    fn text(&self) -> String {
        match self {
            Self::Refused(refusal) => format!("{refusal}\n"),
            Self::NoBackend => "no backend is available\n".to_owned(),
            Self::Unreachable(_) | Self::Broken(_) | Self::UnaskedUpgrade | Self::BackendLeft => {
                "the backend failed\n".to_owned()
            }
            Self::Timeout => "the backend did not answer in time\n".to_owned(),
        }
    }

    /// The answer. `is_http1` says that the connection can be told to end behind a request that was refused.
    pub fn answer(&self, mut account: Account, is_http1: bool) -> Response<AnswerBody> {
        account.ended(self.outcome());
        let mut response = text(self.status(), self.text(), account);
        if is_http1 && matches!(self, Self::Refused(_)) {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(self, Self::Refused(Refusal::Method(_))) {
            // A server that does not say which methods it has says this (RFC 9110, 15.5.6).
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(""));
        }
        response
    }
}

/// An answer in the edge's own words.
pub fn text(status: StatusCode, text: String, mut account: Account) -> Response<AnswerBody> {
    account.answered(status, None);
    let mut response = Response::new(AnswerBody::Text(Some(Bytes::from(text)), Some(account)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
