//! gRPC connection to one member of an etcd cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire::{
    CompactionRequest, EmptyResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::StoreError;

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a request: the time that etcd itself tries to reach a quorum.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(7);
/// Period and timeout of keep-alives, which detect a member that does not respond any more.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a response in bytes: a page of objects of the largest size that etcd accepts by default (1.5 MiB).
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// Address, credentials and key prefix of an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdAddress {
    /// URLs of the members: `http://…` or `https://…`.
    pub servers: Vec<String>,
    /// PEM file with the CA certificates of the members; required for `https`.
    pub ca_file: Option<PathBuf>,
    /// PEM files with the client certificate and its key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
    /// Prefix of all keys.
    pub prefix: String,
}

impl EtcdAddress {
    /// Returns the endpoints of the members.
    pub(super) fn endpoints(&self) -> Result<Vec<Endpoint>, StoreError> {
        if self.servers.is_empty() {
            return Err(unusable(
                "expected at least one etcd server, found none; set --etcd-servers".to_owned(),
            ));
        }
        let tls = self.tls()?;
        let endpoint = |server: &String| {
            let failed =
                |error: tonic::transport::Error| unusable(format!("{server}: {}", error_chain(&error)));
            let endpoint = Endpoint::from_shared(server.clone())
                .map_err(failed)?
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .keep_alive_while_idle(true);
            match endpoint.uri().scheme_str() {
                Some("http") => Ok(endpoint),
                Some("https") => {
                    let ca_missing =
                        || format!("{server}: https requires the certificate of the CA; set --etcd-cafile");
                    let tls = tls.clone().ok_or_else(|| unusable(ca_missing()))?;
                    endpoint.tls_config(tls).map_err(failed)
                }
                _ => Err(unusable(format!(
                    "expected the URL of an etcd server such as http://127.0.0.1:2379, found {server:?}"
                ))),
            }
        };
        self.servers.iter().map(endpoint).collect()
    }

    fn tls(&self) -> Result<Option<ClientTlsConfig>, StoreError> {
        let Some(ca_file) = &self.ca_file else {
            return Ok(None);
        };
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca_file)?));
        if let Some((certificate, key)) = &self.identity_files {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(Some(tls))
    }
}

/// A connection to a member. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Connection(Channel);

impl Connection {
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Connection, Status> {
        let opened = endpoint.connect().await;
        opened
            .map(Connection)
            .map_err(|error| Status::unavailable(error_chain(&error)))
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(super) async fn compact(&self, request: CompactionRequest) -> Result<(), Status> {
        let done: Result<EmptyResponse, Status> = self.unary("/etcdserverpb.KV/Compact", request).await;
        done.map(|_| ())
    }

    /// Opens a watch, which ends when the member has no leader any more.
    pub(super) async fn watch(&self, create: WatchCreateRequest) -> Result<Streaming<WatchResponse>, Status> {
        let first = WatchRequest { create: Some(create) };
        // The request stream stays open, because its end would end the watch.
        let requests = stream::iter([first]).chain(stream::pending());
        let mut request = Request::new(requests);
        request
            .metadata_mut()
            .insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        let mut grpc = self.grpc().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let opening = grpc.streaming(request, path, ProstCodec::default());
        with_timeout(opening).await.map(tonic::Response::into_inner)
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc().await?;
        let path = PathAndQuery::from_static(path);
        let answering = grpc.unary(Request::new(request), path, ProstCodec::default());
        with_timeout(answering).await.map(tonic::Response::into_inner)
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.0.clone())
            .max_decoding_message_size(RESPONSE_BYTES_MAX)
            .max_encoding_message_size(RESPONSE_BYTES_MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error_chain(&error)))?;
        Ok(grpc)
    }
}

/// Converts an error of etcd.
pub(super) fn store_error(status: &Status) -> StoreError {
    let hint = match status.code() {
        Code::ResourceExhausted if status.message().contains("space exceeded") => {
            "; compact and defragment it or give it a larger quota, then disarm the alarm with etcdctl"
        }
        _ => "",
    };
    let message = match std::error::Error::source(status) {
        Some(source) => format!("{}: {}", status.message(), error_chain(source)),
        None => status.message().to_owned(),
    };
    StoreError::Unavailable {
        reason: format!("etcd: {message}{hint}"),
    }
}

async fn with_timeout<T>(exchange: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded(format!(
            "no response within {REQUEST_TIMEOUT:?}"
        ))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))
}

fn unusable(reason: String) -> StoreError {
    StoreError::Unavailable { reason }
}

/// Joins an error and its sources in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
