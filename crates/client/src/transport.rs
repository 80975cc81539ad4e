//! What carries requests: connections to a server, or a server in the same process.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;

/// Why no answer came.
pub type TransportError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer, which may still be on its way.
pub type Body = UnsyncBoxBody<Bytes, TransportError>;
/// A server in the same process: from a request to its answer.
pub type Exchange =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> + Send + Sync>;

/// A way to a server.
pub(crate) enum Transport {
    Network(Box<HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>>),
    InProcess(Exchange),
}

impl Transport {
    /// Sends a request; the body of the answer may still be on its way.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Body>, TransportError> {
        match self {
            Self::Network(http) => {
                let answer = http.request(request.map(Full::new)).await?;
                Ok(answer.map(|body| body.map_err(TransportError::from).boxed_unsync()))
            }
            Self::InProcess(exchange) => exchange(request).await,
        }
    }
}
