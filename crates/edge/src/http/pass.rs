//! A request's way to a backend, and its answer's way back.

use std::sync::Arc;

use http::header::{EXPECT, LOCATION, SET_COOKIE, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Body;
use hyper::upgrade::OnUpgrade;
use tokio::sync::mpsc;

use super::account::Account;
use super::answer_body::{AnswerBody, Passed};
use super::connection::Connection;
use super::exchange::Exchange;
use super::failure::{Failure, text};
use super::forward::{ClientSide, Onward, to_client};
use super::guard::Told;
use super::interim::Outlet;
use super::refusal::Refusal;
use super::request_body::RequestBody;
use super::send::{BackendAnswer, Outgoing};
use super::tunnel::Tunnel;
use super::wire::WireBody;
use super::{cookie, redirect, request};
use crate::backends::Chosen;
use crate::settings::{Frontend, Stickiness};

impl Connection {
    /// Answers a request of this connection. In HTTP/2, `stream` is told what comes before the answer.
    pub(super) async fn answer(
        self: Arc<Self>,
        mut request: Request<WireBody>,
        stream: Option<mpsc::Sender<Response<()>>>,
    ) -> Response<AnswerBody> {
        let number = self.next_number();
        let exchange = Arc::new(Exchange::new(self.activity.begin()));
        let client = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let current = self.port.current();
        let mut account = Account::new(
            self.port.clone(),
            current,
            self.peer.clone(),
            exchange.clone(),
            &parts,
        );
        let undecided = match &self.told {
            Some(told) if parts.version == Version::HTTP_11 && parts.headers.contains_key(UPGRADE) => {
                Some(Undecided(Some(told.clone())))
            }
            _ => None,
        };
        let is_http1 = parts.version < Version::HTTP_2;
        let outlet = match (&self.told, stream) {
            (Some(told), _) if parts.version == Version::HTTP_11 => Outlet::Http1(told.clone()),
            (None, Some(stream)) => Outlet::Http2(stream),
            _ => Outlet::Nowhere,
        };
        let refused = self.told.as_ref().and_then(|told| told.refusal(number));
        let answered = match refused {
            Some(refusal) => {
                account.is_of_no_request();
                Err(Failure::Refused(refusal))
            }
            None => {
                self.check_and_pass(parts, body, outlet, &exchange, &mut account)
                    .await
            }
        };
        match answered {
            Ok(Answered::Text(status, location)) => redirected(status, location, account),
            Ok(Answered::Backend(backend)) => self.back(*backend, exchange, account, client, undecided),
            Err(failure) => {
                tracing::debug!(service = %self.port.key.service, client = %self.peer.client, %failure, "a request was not passed on");
                failure.answer(account, is_http1)
            }
        }
    }

    async fn check_and_pass(
        &self,
        mut parts: Parts,
        body: WireBody,
        outlet: Outlet,
        exchange: &Arc<Exchange>,
        account: &mut Account,
    ) -> Result<Answered, Failure> {
        let host = request::check(&parts)?;
        let current = account.current().clone();
        if let Frontend::Http {
            redirects_to_https: Some(port),
        } = current.listener.frontend
        {
            let location = host.and_then(|host| redirect::to_https(&host, &parts.uri, port));
            let location = location.ok_or(Refusal::Malformed("Host is missing"))?;
            return Ok(Answered::Text(StatusCode::MOVED_PERMANENTLY, location));
        }
        let numbers = match &current.service.policy.stickiness {
            Stickiness::Cookie { name, .. } => cookie::numbers(&parts.headers, name).collect(),
            Stickiness::None | Stickiness::Source { .. } => Vec::new(),
        };
        // Backends are to be told some host, which old clients do not have to name.
        let host = host.or_else(|| HeaderValue::try_from(self.peer.destination.to_string()).ok());
        let onward = Onward::new(&mut parts, host, self.client_side());
        let outgoing = Outgoing {
            // A client of HTTP/2 sends its body without being asked.
            holds_body: parts.version == Version::HTTP_11 && expects_continue(&parts),
            version: parts.version,
            outlet,
            is_whole: body.is_end_stream(),
            is_repeatable: is_idempotent(&parts.method) && body.is_end_stream(),
            onward,
            numbers,
            exchange: exchange.clone(),
        };
        let body = RequestBody::new(body, exchange.clone());
        let mut answer = self.pass(&outgoing, parts, body, account).await?;
        answer.numbers = outgoing.numbers;
        answer.wanted_upgrade = outgoing.onward.wants_upgrade();
        answer.version = outgoing.version;
        Ok(Answered::Backend(Box::new(answer)))
    }

    fn client_side(&self) -> ClientSide {
        ClientSide {
            address: self.peer.ip(),
            port: self.peer.destination.port(),
            is_tls: self.peer.tls.is_some(),
        }
    }

    /// Passes an answer back.
    fn back(
        &self,
        answer: BackendAnswer,
        exchange: Arc<Exchange>,
        mut account: Account,
        client: OnUpgrade,
        undecided: Option<Undecided>,
    ) -> Response<AnswerBody> {
        let BackendAnswer {
            mut response,
            sender,
            chosen,
            numbers,
            wanted_upgrade,
            version,
        } = answer;
        let status = response.status();
        let is_switching = status == StatusCode::SWITCHING_PROTOCOLS;
        if is_switching && !wanted_upgrade {
            return Failure::UnaskedUpgrade.answer(account, true);
        }
        account.answered(status, Some(chosen.backend.address));
        to_client(response.headers_mut(), is_switching);
        self.stick(&mut response, &account, &chosen, &numbers);
        let idle_timeout = account.current().service.policy.idle_timeout;
        if let (true, Some(undecided)) = (is_switching, undecided) {
            undecided.tunnel();
            let backend = hyper::upgrade::on(&mut response);
            self.set_tunnel(Tunnel {
                client,
                backend,
                exchange,
                account,
                chosen,
                idle_timeout,
            });
            return response.map(|_| AnswerBody::Text(None, None));
        }
        let (mut parts, inner) = response.into_parts();
        parts.version = Version::HTTP_11;
        let ends_with_connection = version == Version::HTTP_10 && inner.size_hint().exact().is_none();
        let passed = Passed {
            inner,
            sender: Some(sender),
            chosen,
            exchange,
            account,
            idle_timeout,
            ends_with_connection,
            is_given: false,
            end: None,
        };
        Response::from_parts(parts, passed.begin())
    }

    /// Tells the client by which cookie it gets to the same backend again, if it does not know or is to remember it anew.
    fn stick(&self, response: &mut Response<WireBody>, account: &Account, chosen: &Chosen, numbers: &[u64]) {
        let Stickiness::Cookie { name, max_age } = &account.current().service.policy.stickiness else {
            return;
        };
        let number = self.port.cookie_number(&chosen.backend);
        if numbers.contains(&number) && max_age.is_none() {
            return;
        }
        if let Some(value) = cookie::set_cookie(name, number, *max_age, self.peer.tls.is_some()) {
            response.headers_mut().append(SET_COOKIE, value);
        }
    }
}

/// What was decided about a request.
enum Answered {
    Text(StatusCode, HeaderValue),
    Backend(Box<BackendAnswer>),
}

/// A request that may change the protocol: unless it does, the next one may come.
struct Undecided(Option<Told>);

impl Undecided {
    fn tunnel(mut self) {
        if let Some(told) = self.0.take() {
            told.tunnel();
        }
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            told.keep();
        }
    }
}

/// Whether the client holds its body back until it is asked for it (RFC 9110, 10.1.1).
fn expects_continue(parts: &Parts) -> bool {
    let expected = parts.headers.get(EXPECT);
    expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn is_idempotent(method: &Method) -> bool {
    [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::TRACE,
        Method::PUT,
        Method::DELETE,
    ]
    .contains(method)
}

fn redirected(status: StatusCode, location: HeaderValue, mut account: Account) -> Response<AnswerBody> {
    account.ended("ok");
    let mut response = text(status, "use https\n".to_owned(), account);
    response.headers_mut().insert(LOCATION, location);
    response
}
