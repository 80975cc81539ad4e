//! Sessions of readers: a secret in a cookie, an end, and repeated checks of the token.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{COOKIE, HeaderMap};
use tokio::time::Instant;

use super::access::{Access, User};
use super::rate::Bucket;
use super::response::Refusal;
use super::secrets::{Digest, NoRandomNumbers, new_secret};

/// Lifetime of a session.
const LIFETIME: Duration = Duration::from_secs(8 * 3_600);
/// Time after which a token is checked again: with a revoked one, the session ends within a minute.
const CHECK_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of sessions. With more, the user with the most sessions loses the one that began first.
pub const SESSIONS_MAX: usize = 64;
/// Maximum number of sessions of one user. With more, the one that began first ends.
pub const SESSIONS_OF_USER_MAX: usize = 8;
/// Maximum number of responses of one user that are sent at the same time: half of all. A page reads up to 6 at a time.
const RESPONSES_OF_USER_MAX: usize = 16;
/// Maximum number of streams of one user: half of all. Each tab of a browser has one.
const STREAMS_OF_USER_MAX: usize = 32;
/// Requests of a session each second and at once. A page sends a few for each click.
const REQUESTS: (f64, f64) = (20.0, 100.0);
/// Traces of a session each second and at once. A trace computes the plans of nodes.
const TRACES: (f64, f64) = (2.0, 10.0);

/// Session of a reader.
#[derive(Debug)]
struct Session {
    user: User,
    /// Token of the login; absent if it is not checked again.
    token: Option<String>,
    begun: Instant,
    checked: Instant,
    requests: Bucket,
    traces: Bucket,
}

/// Streams and responses of a user that are under way. They can outlive the session that began them.
#[derive(Debug, Default)]
struct UserResponses {
    streams: usize,
    responses: usize,
}

/// Identity of a session: the digest of its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(Digest);

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    /// Name of the cookie. Cookies do not distinguish ports, so the name does.
    cookie: String,
    open: Mutex<HashMap<SessionId, Session>>,
    /// Users with streams or responses under way.
    held: Mutex<HashMap<User, UserResponses>>,
}

impl Sessions {
    /// Returns no sessions. `port` is that of the server.
    pub fn new(port: u16) -> Self {
        Self {
            cookie: format!("portolan-chart-{port}"),
            open: Mutex::default(),
            held: Mutex::default(),
        }
    }

    fn with_open_sessions<R>(&self, call: impl FnOnce(&mut HashMap<SessionId, Session>) -> R) -> R {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| session.begun.elapsed() < LIFETIME);
        call(&mut open)
    }

    /// Begins a session. Returns the value of `Set-Cookie`. The cookie has no path, so it belongs to the directory of
    /// the login (RFC 6265, section 5.1.4). The page therefore works below any prefix.
    ///
    /// # Errors
    ///
    /// [`NoRandomNumbers`] if the kernel provides none.
    pub fn begin(&self, user: User, token: Option<String>) -> Result<String, NoRandomNumbers> {
        let secret = new_secret()?;
        let now = Instant::now();
        let session = Session {
            user,
            token,
            begun: now,
            checked: now,
            requests: Bucket::new(REQUESTS.0, REQUESTS.1, now),
            traces: Bucket::new(TRACES.0, TRACES.1, now),
        };
        self.with_open_sessions(|open| {
            if let Some(displaced) = displaced_session(open, &session.user) {
                open.remove(&displaced);
            }
            open.insert(SessionId(Digest::of(&secret)), session);
        });
        let seconds = LIFETIME.as_secs();
        Ok(format!(
            "{}={secret}; HttpOnly; SameSite=Strict; Max-Age={seconds}",
            self.cookie
        ))
    }

    /// Returns the value of `Set-Cookie` that removes the cookie.
    pub fn removed_cookie(&self) -> String {
        format!("{}=; HttpOnly; SameSite=Strict; Max-Age=0", self.cookie)
    }

    /// Ends a session.
    pub fn end(&self, id: SessionId) {
        self.with_open_sessions(|open| open.remove(&id));
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.with_open_sessions(|open| open.len())
    }

    /// Returns the session of a request, and checks its token again if the last check is a minute old. It takes a
    /// permit first: a check is a dozen requests to the API, and is repeated while the API does not decide.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without a session, if the token is no longer valid, or if the session sends too many requests.
    pub async fn authorize(&self, headers: &HeaderMap, access: &Access) -> Result<SessionId, Refusal> {
        let id = self.id_of(headers)?;
        self.permit_request(id)?;
        self.check(id, access).await?;
        Ok(id)
    }

    /// Returns the session that a request names, which may not exist.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without the cookie.
    pub fn id_of(&self, headers: &HeaderMap) -> Result<SessionId, Refusal> {
        let secret = self.cookie_of(headers).ok_or_else(Refusal::no_session)?;
        Ok(SessionId(Digest::of(secret)))
    }

    /// Checks a session as [`Sessions::authorize`] does.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without a session, or if the token is no longer valid.
    pub async fn check(&self, id: SessionId, access: &Access) -> Result<(), Refusal> {
        let due = self.with_open_sessions(|open| {
            let session = open.get_mut(&id).ok_or_else(Refusal::no_session)?;
            let is_due = session.checked.elapsed() >= CHECK_PERIOD;
            Ok(session.token.clone().filter(|_| is_due))
        })?;
        let Some(token) = due else {
            return Ok(());
        };
        let checked = access.check_again(&token).await;
        self.with_open_sessions(|open| match &checked {
            Ok(()) => {
                if let Some(session) = open.get_mut(&id) {
                    session.checked = Instant::now();
                }
            }
            // Without a decision of the API the session stays, and shows nothing.
            Err(refusal) if refusal.status == http::StatusCode::SERVICE_UNAVAILABLE => {}
            Err(_) => {
                open.remove(&id);
            }
        });
        checked
    }

    /// Returns the user of a session.
    pub fn user(&self, id: SessionId) -> Option<User> {
        self.with_open_sessions(|open| open.get(&id).map(|session| session.user.clone()))
    }

    /// Takes a permit for a request.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the session sends too many requests.
    fn permit_request(&self, id: SessionId) -> Result<(), Refusal> {
        self.permit(id, |session| session.requests.take(Instant::now()))
    }

    /// Takes a permit for a trace.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the session traces too often.
    pub fn permit_trace(&self, id: SessionId) -> Result<(), Refusal> {
        self.permit(id, |session| session.traces.take(Instant::now()))
    }

    /// Takes a permit for a stream, which [`Sessions::end_stream`] returns. The result is its user.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without a session, or if the user has too many streams.
    pub fn begin_stream(&self, id: SessionId) -> Result<User, Refusal> {
        self.acquire(id, |held| {
            let has_permit = held.streams < STREAMS_OF_USER_MAX;
            held.streams += usize::from(has_permit);
            has_permit
        })
    }

    /// Returns the permit of a stream.
    pub fn end_stream(&self, user: &User) {
        self.release(user, |held| held.streams = held.streams.saturating_sub(1));
    }

    /// Takes a permit for a response, which [`Sessions::end_response`] returns. The result is its user.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] without a session, or if the user has too many responses.
    pub fn begin_response(&self, id: SessionId) -> Result<User, Refusal> {
        self.acquire(id, |held| {
            let has_permit = held.responses < RESPONSES_OF_USER_MAX;
            held.responses += usize::from(has_permit);
            has_permit
        })
    }

    /// Returns the permit of a response.
    pub fn end_response(&self, user: &User) {
        self.release(user, |held| held.responses = held.responses.saturating_sub(1));
    }

    fn acquire(&self, id: SessionId, take: impl FnOnce(&mut UserResponses) -> bool) -> Result<User, Refusal> {
        let user = self.user(id).ok_or_else(Refusal::no_session)?;
        let mut users = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if take(users.entry(user.clone()).or_default()) {
            Ok(user)
        } else {
            Err(Refusal::too_many("the user has too many requests: retry later"))
        }
    }

    fn release(&self, user: &User, give: impl FnOnce(&mut UserResponses)) {
        let mut users = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = users.get_mut(user) {
            give(held);
            if held.streams == 0 && held.responses == 0 {
                users.remove(user);
            }
        }
    }

    fn permit(&self, id: SessionId, take: impl FnOnce(&mut Session) -> bool) -> Result<(), Refusal> {
        self.with_open_sessions(|open| {
            let session = open.get_mut(&id).ok_or_else(Refusal::no_session)?;
            if take(session) {
                Ok(())
            } else {
                Err(Refusal::too_many(
                    "the session has too many requests: retry later",
                ))
            }
        })
    }

    /// Returns the secret in the cookie of a request.
    fn cookie_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let (_, secret) = pairs.find(|(name, _)| *name == self.cookie)?;
        Some(secret)
    }
}

/// Returns the session that ends when a user begins another one. A user with too many sessions loses the first one. If
/// there are too many in total, the user with the most loses the first one. So the logins of one user do not end the
/// sessions of others.
fn displaced_session(open: &HashMap<SessionId, Session>, user: &User) -> Option<SessionId> {
    let mut counts: HashMap<&User, usize> = HashMap::new();
    for session in open.values() {
        *counts.entry(&session.user).or_default() += 1;
    }
    let own = counts.get(user).copied().unwrap_or_default();
    let owner = if own >= SESSIONS_OF_USER_MAX {
        user
    } else if open.len() >= SESSIONS_MAX {
        counts.into_iter().max_by_key(|(_, count)| *count)?.0
    } else {
        return None;
    };
    let sessions = open.iter().filter(|(_, session)| session.user == *owner);
    let first = sessions.min_by_key(|(_, session)| session.begun);
    first.map(|(id, _)| *id)
}

#[cfg(test)]
mod tests;
