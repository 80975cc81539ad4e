//! A request's path to a backend, and the response's path back.

use std::sync::Arc;

use http::header::{EXPECT, LOCATION, SET_COOKIE, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Body;
use hyper::upgrade::OnUpgrade;
use tokio::sync::mpsc;

use super::access_record::AccessRecord;
use super::connection::Connection;
use super::exchange::Exchange;
use super::gateway_error::{GatewayError, text_response};
use super::header_rewrite::{ClientInfo, ForwardedHead, prepare_for_client};
use super::informational::InformationalSink;
use super::rejection::RequestRejection;
use super::request_body::RequestBody;
use super::request_smuggling_guard::GuardHandle;
use super::response_body::{ForwardedBody, ResponseBody};
use super::send::{BackendResponse, OutgoingRequest};
use super::tunnel::Tunnel;
use super::wire_body::WireBody;
use super::{redirect, request};
use crate::backends::ChosenBackend;
use crate::port::{Port, PortSettings};
use crate::refusal::ConnectionRefusal;
use crate::settings::{Frontend, Stickiness};
use crate::sticky_cookie;

impl Connection {
    /// Responds to a request of this connection. In HTTP/2, informational responses go to `stream`.
    pub(super) async fn respond(
        self: Arc<Self>,
        mut request: Request<WireBody>,
        stream: Option<mpsc::Sender<Response<()>>>,
    ) -> Response<ResponseBody> {
        let number = self.next_request_number();
        let (exchange, refusal) = self.start_exchange();
        let client = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let settings = self.port.policy.settings();
        let mut record = AccessRecord::new(
            self.port.clone(),
            settings,
            self.peer.clone(),
            exchange.clone(),
            &parts,
        );
        let pending_upgrade = match &self.guard {
            Some(guard) if parts.version == Version::HTTP_11 && parts.headers.contains_key(UPGRADE) => {
                Some(PendingUpgrade(Some(guard.clone())))
            }
            _ => None,
        };
        let is_http1 = parts.version < Version::HTTP_2;
        let sink = match (&self.guard, stream) {
            (Some(guard), _) if parts.version == Version::HTTP_11 => InformationalSink::Http1(guard.clone()),
            (None, Some(stream)) => InformationalSink::Http2(stream),
            _ => InformationalSink::Discard,
        };
        let rejected = self.guard.as_ref().and_then(|guard| guard.rejection(number));
        let handled = match (rejected, refusal) {
            (Some(rejection), _) => {
                record.mark_malformed();
                Err(GatewayError::Rejected(rejection))
            }
            (None, Some(refusal)) => {
                self.port.counters.refused(refusal);
                Err(GatewayError::Refused(refusal))
            }
            (None, None) => {
                self.check_and_forward(parts, body, sink, &exchange, &mut record)
                    .await
            }
        };
        match handled {
            Ok(RequestDecision::Redirect(status, location)) => redirect_response(status, location, record),
            Ok(RequestDecision::Backend(forwarded)) => {
                self.respond_from_backend(*forwarded, exchange, record, client, pending_upgrade)
            }
            Err(error) => {
                tracing::debug!(service = %self.port.key.service, client = %self.peer.client, %error, "request not forwarded");
                error.into_response(record, is_http1)
            }
        }
    }

    /// Starts the exchange of a request, with the limit that refuses the request, if any. A further request of an HTTP/2
    /// connection counts as a connection: it has a connection to a backend, and memory for its response.
    fn start_exchange(&self) -> (Arc<Exchange>, Option<ConnectionRefusal>) {
        let in_progress = self.activity.start_request();
        let is_http2 = self.guard.is_none();
        let permit = (is_http2 && in_progress.is_further())
            .then(|| self.port.admission.permit_request(self.peer.ip()))
            .transpose();
        let refusal = permit.as_ref().err().copied();
        (
            Arc::new(Exchange::new(in_progress, permit.ok().flatten())),
            refusal,
        )
    }

    /// Checks a request, and forwards it to a backend.
    async fn check_and_forward(
        &self,
        mut parts: Parts,
        body: WireBody,
        sink: InformationalSink,
        exchange: &Arc<Exchange>,
        record: &mut AccessRecord,
    ) -> Result<RequestDecision, GatewayError> {
        let host = request::check(&parts)?;
        let settings = record.settings().clone();
        if let Frontend::Http {
            redirects_to_https: Some(port),
        } = settings.listener.frontend
        {
            let location = host.and_then(|host| redirect::to_https(&host, &parts.uri, port));
            let location = location.ok_or(RequestRejection::Malformed("expected Host, found none"))?;
            return Ok(RequestDecision::Redirect(StatusCode::MOVED_PERMANENTLY, location));
        }
        if let Some(port) = self.https_port_of_host(&settings, host.as_ref()) {
            let location = host.and_then(|host| redirect::to_https(&host, &parts.uri, port));
            let location = location.ok_or(RequestRejection::Malformed("expected Host, found none"))?;
            return Ok(RequestDecision::Redirect(
                StatusCode::PERMANENT_REDIRECT,
                location,
            ));
        }
        let target = self.target(&settings, host.as_ref(), parts.uri.path())?;
        let target_settings = target.policy.settings();
        let cookie_ids = match &target_settings.service.policy.stickiness {
            Stickiness::Cookie { name, .. } => sticky_cookie::ids(&parts.headers, name).collect(),
            Stickiness::None | Stickiness::Source { .. } => Vec::new(),
        };
        // A backend expects a host, which clients of HTTP/1.0 need not name.
        let host = host.or_else(|| HeaderValue::try_from(self.peer.destination.to_string()).ok());
        let head = ForwardedHead::new(&mut parts, host, self.client_info());
        let version = parts.version;
        let outgoing = OutgoingRequest {
            // A client of HTTP/2 sends its body without waiting.
            holds_body: version == Version::HTTP_11 && expects_continue(&parts),
            sink,
            is_whole: body.is_end_stream(),
            is_repeatable: is_idempotent(&parts.method) && body.is_end_stream(),
            head,
            cookie_ids,
            exchange: exchange.clone(),
            target,
        };
        let body = RequestBody::new(body, exchange.clone());
        let backend = self.forward(&outgoing, parts, body, record).await?;
        Ok(RequestDecision::Backend(Box::new(ForwardedRequest {
            backend,
            wants_upgrade: outgoing.head.wants_upgrade(),
            cookie_ids: outgoing.cookie_ids,
            target: outgoing.target,
            version,
        })))
    }

    /// Returns the port of `https://` to which a request without TLS for the host is redirected by routes.
    fn https_port_of_host(&self, settings: &PortSettings, host: Option<&HeaderValue>) -> Option<u16> {
        let routes = settings.service.routes.as_ref()?;
        let host = host?.to_str().ok()?;
        routes.redirect(host).filter(|_| self.peer.tls.is_none())
    }

    /// Returns the port whose backends receive a request: that of its route, or without routes this port.
    fn target(
        &self,
        settings: &PortSettings,
        host: Option<&HeaderValue>,
        path: &str,
    ) -> Result<Arc<Port>, GatewayError> {
        let Some(routes) = &settings.service.routes else {
            return Ok(self.port.clone());
        };
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        let server_name = self.peer.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        if server_name.is_some_and(|name| !routes.have_same_owner(name, host)) {
            return Err(GatewayError::Misdirected);
        }
        let route = routes.find(host, path).ok_or(GatewayError::NoRoute)?;
        let target = route.target.as_ref().and_then(|key| self.port.route_target(key));
        target.ok_or(GatewayError::NoBackend)
    }

    fn client_info(&self) -> ClientInfo {
        ClientInfo {
            address: self.peer.ip(),
            port: self.peer.destination.port(),
            is_tls: self.peer.tls.is_some(),
        }
    }

    /// Responds with the response of a backend.
    fn respond_from_backend(
        &self,
        forwarded: ForwardedRequest,
        exchange: Arc<Exchange>,
        mut record: AccessRecord,
        client: OnUpgrade,
        pending_upgrade: Option<PendingUpgrade>,
    ) -> Response<ResponseBody> {
        let ForwardedRequest {
            backend,
            cookie_ids,
            wants_upgrade,
            version,
            target,
        } = forwarded;
        let BackendResponse {
            mut response,
            sender,
            chosen,
        } = backend;
        let status = response.status();
        let is_switching = status == StatusCode::SWITCHING_PROTOCOLS;
        if is_switching && !wants_upgrade {
            return GatewayError::UnexpectedUpgrade.into_response(record, true);
        }
        record.set_response(status, Some(chosen.backend.address));
        prepare_for_client(response.headers_mut(), is_switching);
        self.set_sticky_cookie(&mut response, &target, &chosen, &cookie_ids);
        let idle_timeout = record.settings().service.policy.idle_timeout;
        if let (true, Some(pending_upgrade)) = (is_switching, pending_upgrade) {
            pending_upgrade.tunnel();
            let backend = hyper::upgrade::on(&mut response);
            self.set_tunnel(Tunnel {
                client,
                backend,
                exchange,
                record,
                chosen,
                idle_timeout,
            });
            return response.map(|_| ResponseBody::Text(None, None));
        }
        let (mut parts, inner) = response.into_parts();
        parts.version = Version::HTTP_11;
        let is_close_delimited = version == Version::HTTP_10 && inner.size_hint().exact().is_none();
        let body = ForwardedBody {
            inner,
            sender: Some(sender),
            chosen,
            exchange,
            record,
            idle_timeout,
            is_close_delimited,
            awaits_client: false,
            cancellation: None,
        };
        Response::from_parts(parts, body.into_body())
    }

    /// Sets the cookie that names the backend, if the client does not have it or it expires.
    fn set_sticky_cookie(
        &self,
        response: &mut Response<WireBody>,
        target: &Port,
        chosen: &ChosenBackend,
        cookie_ids: &[u64],
    ) {
        let settings = target.policy.settings();
        let Stickiness::Cookie { name, max_age } = &settings.service.policy.stickiness else {
            return;
        };
        let id = target.policy.cookie_id(&chosen.backend);
        if cookie_ids.contains(&id) && max_age.is_none() {
            return;
        }
        if let Some(value) = sticky_cookie::set_cookie(name, id, *max_age, self.peer.tls.is_some()) {
            response.headers_mut().append(SET_COOKIE, value);
        }
    }
}

/// Decision about a request.
enum RequestDecision {
    Redirect(StatusCode, HeaderValue),
    Backend(Box<ForwardedRequest>),
}

/// Request that a backend responded to.
struct ForwardedRequest {
    backend: BackendResponse,
    /// Ids from the client's cookies.
    cookie_ids: Vec<u64>,
    wants_upgrade: bool,
    /// The client's version of HTTP.
    version: Version,
    /// Port of the backend.
    target: Arc<Port>,
}

/// Request that may switch protocols. If it does not switch, dropping this value admits the next request.
struct PendingUpgrade(Option<GuardHandle>);

impl PendingUpgrade {
    fn tunnel(mut self) {
        if let Some(guard) = self.0.take() {
            guard.tunnel();
        }
    }
}

impl Drop for PendingUpgrade {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            guard.resume();
        }
    }
}

/// Returns true if the client sends its body only after `100 Continue` (RFC 9110, section 10.1.1).
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

fn redirect_response(
    status: StatusCode,
    location: HeaderValue,
    mut record: AccessRecord,
) -> Response<ResponseBody> {
    record.set_outcome("ok");
    let mut response = text_response(status, "use https\n".to_owned(), record);
    response.headers_mut().insert(LOCATION, location);
    response
}
