//! Transport of requests: connections to a server, or a server in the same process.

mod first_connection;

use std::sync::Arc;

use bytes::Bytes;
use first_connection::FirstConnection;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;

/// Failure of the transport.
pub type TransportError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a response, as a stream.
pub type Body = UnsyncBoxBody<Bytes, TransportError>;
/// A server in the same process, as a function from requests to responses.
pub type Exchange =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> + Send + Sync>;

/// A client of HTTP over TLS.
type HttpsClient = HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A connection to a server.
pub(crate) enum Transport {
    Network(Box<HttpsClient>, FirstConnection),
    InProcess(Exchange),
}

impl Transport {
    /// Returns a transport over the connections of a client.
    pub(crate) fn network(http: HttpsClient) -> Self {
        Self::Network(Box::new(http), FirstConnection::default())
    }

    /// Sends a request and returns the response with its body as a stream.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Body>, TransportError> {
        match self {
            Self::Network(http, first) => {
                let exchange = http.request(request.map(Full::new));
                let response = first.wait_for_and_run(exchange).await?;
                Ok(response.map(|body| body.map_err(TransportError::from).boxed_unsync()))
            }
            Self::InProcess(exchange) => exchange(request).await,
        }
    }
}
