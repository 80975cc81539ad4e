//! Registry for tests, over a socket of this host, with faults.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::digest::Digest;
use crate::platform::Platform;
use crate::tests::test_images::{TestImage, descriptor};

/// Deviation of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Responses with layers end after so many bytes.
    Cut(usize),
    /// The first response with a layer ends after so many bytes.
    CutOnce(usize),
    /// Responses with layers stop after so many bytes, and the connection stays open.
    Stall(usize),
    IgnoreRange,
    WrongLayer,
    LongLayer,
    ShortLayer,
    NoLayer,
    WrongConfig,
    WrongManifest,
    HugeManifest,
    StallManifest,
    ServerError,
    RedirectLoop,
    RedirectLayers(String),
}

/// Authentication that the registry requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    None,
    Basic,
    Token,
    IdentityToken,
}

/// A running registry.
pub(super) struct TestRegistry {
    pub authority: String,
    state: Arc<State>,
}

/// Content, faults and requests of the registry.
struct State {
    authority: String,
    protection: Protection,
    faults: Vec<Fault>,
    manifests: BTreeMap<String, Vec<u8>>,
    config: (String, Vec<u8>),
    layers: BTreeMap<String, Vec<u8>>,
    requests: Mutex<Vec<String>>,
    has_cut: AtomicBool,
}

/// A response, possibly incomplete.
struct Response {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Bytes of the body after which the connection ends or stalls.
    end: Option<usize>,
    stalls: bool,
}

impl TestRegistry {
    /// Serves the image as `team/web:1`, and an index with it as `team/web:index`.
    pub(super) async fn start(image: &TestImage, protection: Protection, faults: Vec<Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let authority = listener.local_addr().expect("an address").to_string();
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &image.manifest);
        let platform = Platform::host();
        entry["platform"] = json!({"os": platform.os, "architecture": platform.architecture});
        let index = json!({"schemaVersion": 2, "manifests": [entry]})
            .to_string()
            .into_bytes();
        let mut manifests = BTreeMap::new();
        for (tag, content) in [("1", image.manifest.clone()), ("index", index)] {
            manifests.insert(Digest::sha256(&content).to_string(), content.clone());
            manifests.insert(tag.to_owned(), content);
        }
        let by_digest = |content: &Vec<u8>| (Digest::sha256(content).to_string(), content.clone());
        let state = Arc::new(State {
            authority: authority.clone(),
            protection,
            faults,
            manifests,
            config: by_digest(&image.config),
            layers: image.compressed.iter().map(by_digest).collect(),
            requests: Mutex::new(Vec::new()),
            has_cut: AtomicBool::new(false),
        });
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                // A client that closes its connection does not fail the test.
                tokio::spawn(async move { state.serve(stream).await.ok() });
            }
        });
        Self { authority, state }
    }

    /// Address on which nothing listens.
    pub(super) async fn closed_authority() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        listener.local_addr().expect("an address").to_string()
    }

    /// Heads of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().expect("requests").clone()
    }

    pub(super) fn request_count(&self) -> usize {
        self.requests().len()
    }
}

impl State {
    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut received = Vec::new();
        loop {
            let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
                if stream.read_buf(&mut received).await? == 0 {
                    return Ok(());
                }
                continue;
            };
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            received.drain(..end + 4);
            let length = header(&head, "content-length")
                .and_then(|length| length.parse().ok())
                .unwrap_or(0);
            while received.len() < length {
                stream.read_buf(&mut received).await?;
            }
            let body = String::from_utf8_lossy(&received[..length]).into_owned();
            received.drain(..length);
            self.requests.lock().expect("requests").push(head.clone());
            let response = self.respond(&head, &body);
            if !send(&mut stream, response).await? {
                return Ok(());
            }
        }
    }

    fn respond(&self, head: &str, body: &str) -> Response {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        if path == "/token" {
            return self.token(head, target, body);
        }
        if !self.is_authorized(head) {
            let challenge = match self.protection {
                Protection::Basic => "Basic realm=\"test\"".to_owned(),
                _ => format!(
                    "Bearer realm=\"http://{}/token\",service=\"test\"",
                    self.authority
                ),
            };
            return Response::new("401 Unauthorized", b"{}").with("WWW-Authenticate", challenge);
        }
        if self.has(&Fault::ServerError) {
            return Response::new("503 Service Unavailable", b"");
        }
        if self.has(&Fault::RedirectLoop) {
            return Response::new("307 Temporary Redirect", b"").with("Location", target.to_owned());
        }
        if let Some(name) = path.strip_prefix("/v2/team/web/manifests/") {
            return self.manifest(name);
        }
        match path.strip_prefix("/v2/team/web/blobs/") {
            Some(digest) if digest == self.config.0 => {
                let mut content = self.config.1.clone();
                if self.has(&Fault::WrongConfig) {
                    content[0] = b' ';
                }
                Response::new("200 OK", &content)
            }
            Some(digest) => self.layer(digest, head, target),
            None => Response::new("404 Not Found", b""),
        }
    }

    fn manifest(&self, name: &str) -> Response {
        let Some(content) = self.manifests.get(name) else {
            return Response::new(
                "404 Not Found",
                br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown"}]}"#,
            );
        };
        if self.has(&Fault::HugeManifest) {
            return Response::new("200 OK", &vec![b' '; 5 << 20]);
        }
        let response = Response::new("200 OK", content);
        let response = response.with("Docker-Content-Digest", Digest::sha256(content).to_string());
        if self.has(&Fault::WrongManifest) {
            return Response {
                body: [content.as_slice(), b" "].concat(),
                ..response
            };
        }
        Response {
            stalls: self.has(&Fault::StallManifest),
            end: self.has(&Fault::StallManifest).then_some(10),
            ..response
        }
    }

    fn layer(&self, digest: &str, head: &str, target: &str) -> Response {
        let content = self.layers.get(digest).filter(|_| !self.has(&Fault::NoLayer));
        let Some(mut content) = content.cloned() else {
            return Response::new("404 Not Found", br#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#);
        };
        for fault in &self.faults {
            match fault {
                Fault::RedirectLayers(authority) => {
                    let location = format!("http://{authority}{target}");
                    return Response::new("307 Temporary Redirect", b"").with("Location", location);
                }
                Fault::WrongLayer => content[0] ^= 1,
                Fault::LongLayer => content.push(0),
                Fault::ShortLayer => content.truncate(content.len() / 2),
                _ => {}
            }
        }
        let range = header(head, "range").filter(|_| !self.has(&Fault::IgnoreRange));
        let start = range.and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse::<usize>()
                .ok()
        });
        let mut response = match start {
            Some(start) if start >= content.len() => Response::new("416 Range Not Satisfiable", b""),
            Some(start) => {
                let range = format!("bytes {start}-{}/{}", content.len() - 1, content.len());
                Response::new("206 Partial Content", &content[start..]).with("Content-Range", range)
            }
            None => Response::new("200 OK", &content),
        };
        for fault in &self.faults {
            match fault {
                Fault::CutOnce(_) if self.has_cut.swap(true, Ordering::Relaxed) => {}
                Fault::Cut(bytes) | Fault::CutOnce(bytes) => response.end = Some(*bytes),
                Fault::Stall(bytes) => (response.end, response.stalls) = (Some(*bytes), true),
                _ => {}
            }
        }
        response
    }

    fn token(&self, head: &str, target: &str, body: &str) -> Response {
        let is_authorized = match self.protection {
            Protection::Token => header(head, "authorization") == Some("Basic dXNlcjpzZWNyZXQ="),
            Protection::IdentityToken => {
                body.contains("refresh_token=secret") && body.contains("scope=repository")
            }
            _ => true,
        };
        let has_scope = target.contains("scope=repository%3Ateam%2Fweb%3Apull") || !body.is_empty();
        if is_authorized && has_scope {
            return Response::new("200 OK", br#"{"access_token":"test-token"}"#);
        }
        Response::new("401 Unauthorized", b"")
    }

    fn is_authorized(&self, head: &str) -> bool {
        let authorization = header(head, "authorization");
        match self.protection {
            Protection::None => true,
            Protection::Basic => authorization == Some("Basic dXNlcjpzZWNyZXQ="),
            Protection::Token | Protection::IdentityToken => authorization == Some("Bearer test-token"),
        }
    }

    fn has(&self, fault: &Fault) -> bool {
        self.faults.contains(fault)
    }
}

impl Response {
    fn new(status: &'static str, body: &[u8]) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_vec(),
            end: None,
            stalls: false,
        }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// Sends a response. Returns `false` if the connection ends with it.
async fn send(stream: &mut TcpStream, response: Response) -> io::Result<bool> {
    let mut head = format!(
        "HTTP/1.1 {}\r\nContent-Length: {}\r\n",
        response.status,
        response.body.len()
    );
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    let end = response.end.unwrap_or(usize::MAX).min(response.body.len());
    stream.write_all(&response.body[..end]).await?;
    if end < response.body.len() && response.stalls {
        // The timeout of the client is shorter.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    Ok(end == response.body.len())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value.trim())
}
