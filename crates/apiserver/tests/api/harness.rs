//! A server on a free loopback port with its own store, and a client for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{Access, Config, KubernetesService, NODE_PORTS_DEFAULT, Server};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, StoreError};
use tempfile::TempDir;

/// Limit of waits; only a failing test waits so long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

const TOKEN: &str = "t0ken";
/// The token of a user without rights.
pub(crate) const ANN_TOKEN: &str = "ann-t0ken";

/// Opens a store. Connections of a server that was stopped before may hold it for a moment.
async fn open_store(directory: &Path) -> SqliteStore {
    let started = Instant::now();
    loop {
        match SqliteStore::open(directory, SqliteOptions::default()) {
            Err(StoreError::InUse { .. }) if started.elapsed() < TIMEOUT => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened.unwrap(),
        }
    }
}

/// A server and its client.
pub(crate) struct Api {
    pub server: Server,
    pub directory: TempDir,
    /// The server's store.
    pub store: Arc<SqliteStore>,
    client: ApiClient,
}

/// A response whose body was read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }

    /// Checks the status code and returns the body.
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(
            self.code.as_u16(),
            code,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self.json()
    }
}

impl Api {
    pub(crate) async fn start() -> Api {
        Api::start_in(tempfile::tempdir().unwrap()).await
    }

    /// Starts a server with other access settings.
    pub(crate) async fn start_with(access: Access) -> Api {
        Api::start_as(tempfile::tempdir().unwrap(), access).await
    }

    /// Starts a server in the directory of an earlier one.
    pub(crate) async fn start_in(directory: TempDir) -> Api {
        Api::start_as(directory, Access::default()).await
    }

    /// Stops the server and starts it again with other access settings.
    pub(crate) async fn restart_with(self, access: Access) -> Api {
        Api::start_as(self.stop().await, access).await
    }

    /// Starts a server with another configuration of the Service `kubernetes`.
    pub(crate) async fn start_for(kubernetes_service: KubernetesService) -> Api {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            kubernetes_service,
            ..config(directory.path().to_owned())
        };
        Api::start_configured(directory, config).await
    }

    /// Stops the server and starts it again with other ranges of cluster IPs.
    pub(crate) async fn restart_with_ranges(self, ranges: &[&str]) -> Api {
        let directory = self.stop().await;
        let config = Config {
            service_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            ..config(directory.path().to_owned())
        };
        Api::start_configured(directory, config).await
    }

    async fn start_as(directory: TempDir, access: Access) -> Api {
        let config = Config {
            access,
            ..config(directory.path().to_owned())
        };
        Api::start_configured(directory, config).await
    }

    async fn start_configured(directory: TempDir, config: Config) -> Api {
        let path = directory.path().to_owned();
        std::fs::write(
            path.join("tokens.csv"),
            format!("{TOKEN},admin,1,\"system:masters\"\n{ANN_TOKEN},ann,2\n"),
        )
        .unwrap();
        let store = Arc::new(open_store(&path.join("store")).await);
        let server = Server::start(config, store.clone()).await.unwrap();
        let client = client(&path, None);
        Api {
            server,
            directory,
            store,
            client,
        }
    }

    /// Uses the administrator's client certificate for requests without a token.
    pub(crate) fn use_certificate(&mut self) {
        self.client = client(self.directory.path(), Some("admin"));
    }

    /// Uses a new client certificate of this user and group for requests without a token.
    pub(crate) fn use_certificate_of(&mut self, user: &str, group: &str) {
        sign(&self.directory.path().join("pki"), user, group);
        self.client = client(self.directory.path(), Some("of-test"));
    }

    /// Sends a request and reads the response head. The default is an administrator's token; an empty header is
    /// left out.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> http::Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.server.address()));
        let token = format!("Bearer {TOKEN}");
        for (name, value) in [("authorization", token.as_str())].iter().chain(headers) {
            let headers = request.headers_mut().unwrap();
            if value.is_empty() {
                drop(headers.remove(*name))
            } else {
                drop(headers.insert(HeaderName::try_from(*name).unwrap(), value.parse().unwrap()))
            }
        }
        let request = request.body(Full::new(body)).unwrap();
        tokio::time::timeout(TIMEOUT, self.client.request(request))
            .await
            .expect("a response in time")
            .unwrap()
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let response = self.open(method, path, headers, body.into()).await;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(TIMEOUT, body.collect())
            .await
            .expect("a body in time")
            .unwrap()
            .to_bytes();
        Reply {
            code: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Reply {
        self.send(
            Method::POST,
            path,
            &[("content-type", "application/json")],
            object.to_string(),
        )
        .await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Reply {
        self.send(
            Method::PUT,
            path,
            &[("content-type", "application/json")],
            object.to_string(),
        )
        .await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Reply {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send(Method::PATCH, path, &headers, patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], "").await
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str) -> Lines {
        self.watch_with(path, &[]).await
    }

    /// Opens a watch with these headers.
    pub(crate) async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Lines {
        let response = self.open(Method::GET, path, headers, Bytes::new()).await;
        assert_eq!(response.status(), 200);
        Lines {
            body: response.into_body(),
            read: BytesMut::new(),
        }
    }

    /// Stops the server and returns its directory.
    pub(crate) async fn stop(self) -> TempDir {
        self.server.drain(TIMEOUT).await;
        self.directory
    }
}

impl Api {
    /// Opens a separate HTTP/1.1 connection, for requests that are upgraded.
    pub(crate) async fn connect(&self) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
        let tls = tls_config(self.directory.path(), None);
        let stream = tokio::net::TcpStream::connect(self.server.address())
            .await
            .unwrap();
        let name = rustls::pki_types::ServerName::from(self.server.address().ip());
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
        connector.connect(name, stream).await.unwrap()
    }
}

/// Returns the `Authorization` header of the administrator.
pub(crate) fn authorization() -> String {
    format!("Bearer {TOKEN}")
}

type ApiClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Returns a client that trusts the CA of the server in this directory.
fn client(directory: &Path, certificate: Option<&str>) -> ApiClient {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls_config(directory, certificate))
        .https_only()
        .enable_http1()
        .enable_http2();
    Client::builder(TokioExecutor::new()).build(connector.build())
}

/// Signs a client certificate with the cluster CA; its files are named `of-test`.
fn sign(pki: &Path, user: &str, group: &str) {
    let read = |file: &str| std::fs::read_to_string(pki.join(file)).unwrap();
    let ca_key = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), ca_key).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(pki.join("of-test.crt"), certificate.pem()).unwrap();
    std::fs::write(pki.join("of-test.key"), key.serialize_pem()).unwrap();
}

fn tls_config(directory: &Path, certificate: Option<&str>) -> ClientConfig {
    let read = |file: &str| std::fs::read(directory.join("pki").join(file)).unwrap();
    let certificates = |file: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&read(file))
            .map(Result::unwrap)
            .collect()
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt") {
        roots.add(certificate).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match certificate {
        Some(name) => {
            let key = PrivateKeyDer::from_pem_slice(&read(&format!("{name}.key"))).unwrap();
            let chain = certificates(&format!("{name}.crt"));
            tls.with_client_auth_cert(chain, key).unwrap()
        }
        None => tls.with_no_client_auth(),
    }
}

fn config(data_dir: PathBuf) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        kubeconfig: Some(data_dir.join("admin.conf")),
        token_auth_file: Some(data_dir.join("tokens.csv")),
        data_dir,
        node_name: "box".to_owned(),
        advertise_address: Some("192.0.2.7".parse().unwrap()),
        kubernetes_service: KubernetesService::default(),
        service_cidrs: vec![
            "10.96.0.0/16".parse().unwrap(),
            "fd00:10:96::/112".parse().unwrap(),
        ],
        node_ports: NODE_PORTS_DEFAULT,
        cluster_domain: "cluster.local".to_owned(),
        access: Access::default(),
        encryption: None,
    }
}

/// The lines of a watch response.
pub(crate) struct Lines {
    body: Incoming,
    read: BytesMut,
}

impl Lines {
    /// Returns the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(TIMEOUT, self.body.frame())
                .await
                .expect("an event in time")?;
            if let Ok(bytes) = frame.unwrap().into_data() {
                self.read.extend_from_slice(&bytes);
            }
        }
    }

    /// Returns type and object name of the next event.
    pub(crate) async fn next_named(&mut self) -> (String, String) {
        let event = self.next().await.expect("another event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

/// Returns the path of a ConfigMap in the default namespace, or of all if `name` is empty.
pub(crate) fn config_maps(name: &str) -> String {
    format!(
        "/api/v1/namespaces/default/configmaps{}{name}",
        if name.is_empty() { "" } else { "/" }
    )
}

/// Returns a ConfigMap with labels.
pub(crate) fn config_map(name: &str, labels: Value) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"k": "v"},
    })
}
