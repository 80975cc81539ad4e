//! The server with a modelled API, over TCP.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use client::{Body as ApiBody, Client, Exchange, TransportError};
use futures_util::{FutureExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::Server;
use super::access::Access;
use crate::feed::{Feed, KINDS_OF_USERS};

/// Time for a response on a busy host.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Name with markup, as a server would reject it and a hostile file would have it.
const MARKUP: &str = "<img src=x onerror=alert(1)>\u{1b}[2J";

/// Modelled API: Services of a list, and their watch.
struct Api {
    services: Vec<Value>,
    /// Receiver of the lines of the watch of Services; taken by the first one.
    events: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

fn service(name: &str, revision: usize) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": revision.to_string(),
            "annotations": {"note": "x".repeat(1 << 20)}},
        "spec": {"clusterIP": "10.96.0.5", "ports": [{"name": MARKUP, "port": 80}]}})
}

impl Api {
    fn respond(&self, path: &str, query: &str) -> (u16, ApiBody) {
        let text = |text: String| {
            Full::new(Bytes::from(text))
                .map_err(TransportError::from)
                .boxed_unsync()
        };
        if query.contains("watch=true") {
            let events = (path == "/api/v1/services")
                .then(|| self.events.lock().unwrap_or_else(PoisonError::into_inner).take())
                .flatten();
            let lines = stream::unfold(events, |events| async {
                let Some(mut events) = events else {
                    return std::future::pending().await;
                };
                let line = events.recv().await?;
                Some((Ok(Frame::data(Bytes::from(line))), Some(events)))
            });
            return (200, StreamBody::new(lines).boxed_unsync());
        }
        let items = if path == "/api/v1/services" {
            self.services.clone()
        } else {
            Vec::new()
        };
        match path {
            "/api/v1/services"
            | "/api/v1/pods"
            | "/api/v1/nodes"
            | "/api/v1/namespaces"
            | "/apis/discovery.k8s.io/v1/endpointslices" => (
                200,
                text(json!({"metadata": {"resourceVersion": "10"}, "items": items}).to_string()),
            ),
            _ => (404, text("{}".to_owned())),
        }
    }
}

/// Server under test.
struct Chart {
    address: String,
    secrets: Arc<Mutex<VecDeque<String>>>,
    events: mpsc::UnboundedSender<String>,
    feed: Feed,
}

impl Chart {
    async fn start(services: Vec<Value>) -> Self {
        let (events, received) = mpsc::unbounded_channel();
        let api = Arc::new(Api {
            services,
            events: Mutex::new(Some(received)),
        });
        let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
            let api = Arc::clone(&api);
            async move {
                let uri = request.uri().clone();
                let (code, body) = api.respond(uri.path(), uri.query().unwrap_or_default());
                Response::builder()
                    .status(code)
                    .body(body)
                    .map_err(TransportError::from)
            }
            .boxed()
        });
        let feed = Feed::new(Client::in_process(exchange), "production", &KINDS_OF_USERS);
        let secrets = Arc::new(Mutex::new(VecDeque::new()));
        let shown = Arc::clone(&secrets);
        let announce = move |secret: &str| {
            shown
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(secret.to_owned());
        };
        let access = Access::by_secret("ann", Box::new(announce)).expect("a secret");
        let listening = Server::listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = listening.1.to_string();
        tokio::spawn(Server::new(listening, feed.clone(), access, "cluster.local").run());
        Self {
            address,
            secrets,
            events,
            feed,
        }
    }

    fn secret(&self) -> String {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.pop_front().expect("a secret")
    }

    async fn open(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a sent request");
        stream
    }

    /// Sends a request with headers, and returns the response with its headers.
    async fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> String {
        let mut lines = vec![
            format!("{method} {path} HTTP/1.1"),
            "Connection: close".to_owned(),
        ];
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            lines.push(format!("Host: {}", self.address));
        }
        lines.extend(headers.iter().map(|header| (*header).to_owned()));
        lines.push(format!("Content-Length: {}", body.len()));
        let mut stream = self.open(&format!("{}\r\n\r\n{body}", lines.join("\r\n"))).await;
        let mut response = Vec::new();
        let read = stream.read_to_end(&mut response);
        tokio::time::timeout(TIMEOUT, read)
            .await
            .expect("a response in time")
            .expect("a response");
        String::from_utf8_lossy(&response).into_owned()
    }

    async fn get(&self, path: &str, cookie: &str) -> String {
        self.send("GET", path, &[&format!("Cookie: {cookie}")], "").await
    }

    /// Logs in, and returns the cookie.
    async fn log_in(&self) -> String {
        let response = self.post_token(&self.secret()).await;
        assert_eq!(status(&response), 204, "{response}");
        let cookie = header(&response, "set-cookie").expect("a cookie");
        cookie.split(';').next().expect("a pair").to_owned()
    }

    async fn post_token(&self, token: &str) -> String {
        let body = json!({"token": token}).to_string();
        self.send("POST", "/api/session", &["Content-Type: application/json"], &body)
            .await
    }

    /// Returns the first snapshot after the caches are filled.
    async fn snapshot(&self, cookie: &str) -> Value {
        for _ in 0..200 {
            let response = self.get("/api/snapshot", cookie).await;
            match status(&response) {
                200 => return json_of(&response),
                503 => tokio::time::sleep(Duration::from_millis(100)).await,
                other => panic!("{other}: {response}"),
            }
        }
        panic!("no snapshot");
    }
}

fn status(response: &str) -> u16 {
    let code = response.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no status: {response:?}"))
}

fn header(response: &str, name: &str) -> Option<String> {
    let head = response.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then(|| value.to_owned())
    })
}

fn json_of(response: &str) -> Value {
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
}

#[tokio::test]
async fn responses_have_security_headers() {
    let chart = Chart::start(Vec::new()).await;
    let cookie = chart.log_in().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/chart.js"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/absent"),
        ("GET", "/api/snapshot"),
        ("GET", "/api/session"),
        ("POST", "/"),
        ("DELETE", "/api/session"),
    ] {
        let response = chart
            .send(method, path, &[&format!("Cookie: {cookie}")], "")
            .await;
        let policy = header(&response, "content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(
            header(&response, "x-content-type-options").as_deref(),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            header(&response, "referrer-policy").as_deref(),
            Some("no-referrer")
        );
        assert_eq!(
            header(&response, "cross-origin-opener-policy").as_deref(),
            Some("same-origin")
        );
        assert_eq!(
            header(&response, "cross-origin-resource-policy").as_deref(),
            Some("same-origin")
        );
        assert_eq!(header(&response, "access-control-allow-origin"), None, "{path}");
        let caching = header(&response, "cache-control").expect("caching");
        let expected = if path.starts_with("/api") {
            "no-store"
        } else {
            "no-"
        };
        assert!(caching.starts_with(expected), "{path}: {caching}");
    }
}

#[tokio::test]
async fn cluster_is_unreadable_without_a_session() {
    let chart = Chart::start(vec![service("web", 1)]).await;
    for path in [
        "/api/session",
        "/api/snapshot",
        "/api/snapshot?time=2026-01-01T00:00:00Z",
        "/api/events?revision=1",
        "/api/services/shop/web",
        "/api/history",
        "/api/findings",
        "/api/trace?url=tcp://web.shop:80&from=node/a",
        "/api/absent",
    ] {
        for cookie in ["", "portolan-chart-1=a", "x"] {
            let response = chart.get(path, cookie).await;
            assert_eq!(status(&response), 401, "{path}: {response}");
            assert!(json_of(&response)["message"].is_string());
        }
    }
    assert!(
        !chart.feed.is_active(),
        "requests without a session start no caches"
    );
}

#[tokio::test]
async fn secret_opens_one_session_which_expires() {
    let chart = Chart::start(Vec::new()).await;
    let secret = chart.secret();
    assert_eq!(status(&chart.post_token("wrong").await), 401);
    let response = chart.post_token(&secret).await;
    assert_eq!(status(&response), 204);
    assert_eq!(
        status(&chart.post_token(&secret).await),
        401,
        "the secret was used"
    );
    let cookie = header(&response, "set-cookie").expect("a cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(&secret));
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(
        json_of(&chart.get("/api/session", pair).await),
        json!({"user": "ann", "authentication": "local"})
    );
    let other = chart.log_in().await;
    assert_ne!(other, pair, "the next secret was printed");
    let ended = chart
        .send("DELETE", "/api/session", &[&format!("Cookie: {pair}")], "")
        .await;
    assert_eq!(status(&ended), 204);
    assert!(
        header(&ended, "set-cookie")
            .expect("a cookie")
            .contains("Max-Age=0")
    );
    assert_eq!(status(&chart.get("/api/session", pair).await), 401);
    assert_eq!(status(&chart.get("/api/session", &other).await), 200);
}

#[tokio::test]
async fn other_hosts_sites_methods_and_types_are_refused() {
    let chart = Chart::start(Vec::new()).await;
    let cookie = format!("Cookie: {}", chart.log_in().await);
    for path in ["/", "/chart.js", "/api/session", "/metrics", "/healthz"] {
        let response = chart
            .send("GET", path, &["Host: rebound.example", &cookie], "")
            .await;
        assert_eq!(status(&response), 403, "{path}");
    }
    for site in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: http://127.0.0.1:1",
    ] {
        let response = chart.send("GET", "/api/session", &[site, &cookie], "").await;
        assert_eq!(status(&response), 403, "{site}");
    }
    for (method, path, allowed) in [
        ("POST", "/", "GET"),
        ("PUT", "/chart.css", "GET"),
        ("PUT", "/api/session", "GET, POST, DELETE"),
        ("POST", "/api/snapshot", "GET"),
        ("OPTIONS", "/api/events", "GET"),
        ("DELETE", "/api/services/shop/web", "GET"),
        ("POST", "/metrics", "GET"),
    ] {
        let response = chart.send(method, path, &[&cookie], "").await;
        assert_eq!(status(&response), 405, "{method} {path}");
        assert_eq!(header(&response, "allow").as_deref(), Some(allowed));
    }
    let body = json!({"token": "a"}).to_string();
    let form = chart
        .send("POST", "/api/session", &["Content-Type: text/plain"], &body)
        .await;
    assert_eq!(status(&form), 400);
    let long = json!({"token": "a".repeat(100_000)}).to_string();
    let response = chart
        .send("POST", "/api/session", &["Content-Type: application/json"], &long)
        .await;
    assert_eq!(status(&response), 400);
    assert!(Server::listen("0.0.0.0:0".parse().expect("an address")).is_err());
}

#[tokio::test]
async fn page_is_compressed_and_has_an_etag() {
    let chart = Chart::start(Vec::new()).await;
    let plain = chart.send("GET", "/", &[], "").await;
    assert_eq!(status(&plain), 200);
    assert_eq!(
        header(&plain, "content-type").as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert!(header(&plain, "content-encoding").is_none());
    let zipped = chart
        .send("GET", "/chart.js", &["Accept-Encoding: br, gzip;q=0.5"], "")
        .await;
    assert_eq!(header(&zipped, "content-encoding").as_deref(), Some("gzip"));
    let refused = chart
        .send("GET", "/chart.js", &["Accept-Encoding: gzip;q=0"], "")
        .await;
    assert!(header(&refused, "content-encoding").is_none());
    let etag = header(&plain, "etag").expect("an ETag");
    let known = chart
        .send("GET", "/", &[&format!("If-None-Match: \"x\", {etag}")], "")
        .await;
    assert_eq!(status(&known), 304);
}

#[tokio::test]
async fn hostile_texts_are_data_in_json() {
    let chart = Chart::start(vec![service("web", 1)]).await;
    let cookie = chart.log_in().await;
    let snapshot = chart.snapshot(&cookie).await;
    assert_eq!(snapshot["services"][0]["frontends"][0]["portName"], MARKUP);
    let response = chart.get("/api/services/shop/web", &cookie).await;
    assert_eq!(status(&response), 200);
    assert_eq!(
        header(&response, "content-type").as_deref(),
        Some("application/json")
    );
    assert!(!response.contains('\u{1b}'), "control characters are escaped");
    assert!(
        response.len() < 10_000,
        "the annotation of 1 MiB is not part of it: {}",
        response.len()
    );
    assert_eq!(json_of(&response)["row"]["name"], "web");
    for (path, code) in [
        ("/api/services/shop/absent", 404),
        ("/api/services/shop", 404),
        ("/api/services/a/b/c", 404),
        ("/api/services/%ff/web", 404),
        ("/api/snapshot?time=yesterday", 400),
        ("/api/snapshot?x=1", 400),
        ("/api/snapshot?time=2000-01-01T00:00:00Z", 404),
        ("/api/events?revision=x", 400),
        ("/api/trace?url=web&from=node/a", 400),
        ("/api/trace?url=tcp://web.shop:80", 400),
        ("/api/trace?url=tcp://web.shop:80&from=pod/shop/absent", 400),
        ("/api/history", 200),
        ("/api/findings", 200),
    ] {
        let response = chart.get(path, &cookie).await;
        // The first examination may still run.
        if !(code == 400 && status(&response) == 503) {
            assert_eq!(status(&response), code, "{path}: {response}");
        }
    }
}

/// Reads a stream until it contains a text.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = String::new();
    let reading = async {
        let mut part = vec![0; 65_536];
        while !read.contains(text) {
            let count = stream.read(&mut part).await.expect("a part");
            assert!(count > 0, "the stream ended: {read}");
            read.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    };
    tokio::time::timeout(TIMEOUT, reading)
        .await
        .unwrap_or_else(|_| panic!("no {text:?}"));
    read
}

fn watch_event(name: &str, port: usize) -> String {
    let mut object = service(name, 100 + port);
    object["metadata"]["annotations"] = json!({});
    object["spec"]["ports"][0]["port"] = port.into();
    format!("{}\n", json!({"type": "MODIFIED", "object": object}))
}

#[tokio::test]
async fn stream_resumes_and_reloads() {
    let chart = Chart::start(vec![service("web", 1)]).await;
    let cookie = chart.log_in().await;
    let revision = chart.snapshot(&cookie).await["revision"]
        .as_u64()
        .expect("a revision");
    let request = |path: &str, more: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n{more}\r\n",
            chart.address
        )
    };
    let mut stream = chart
        .open(&request(&format!("/api/events?revision={revision}"), ""))
        .await;
    let head = read_until(&mut stream, ": keep-alive").await;
    assert_eq!(
        header(&head, "content-type").as_deref(),
        Some("text/event-stream")
    );
    chart.events.send(watch_event("web", 81)).expect("a watch");
    let events = read_until(&mut stream, "\"port\":81").await;
    assert!(events.contains("event: change\ndata: {"), "{events}");
    chart.events.send(watch_event("other", 82)).expect("a watch");
    let events = read_until(&mut stream, "\"port\":82").await;
    assert!(!events.contains("\"port\":81"), "each change is sent once");
    drop(stream);

    // The id of the latest event wins over the parameter of the first request.
    let mut resumed = chart
        .open(&request(&format!("/api/events?revision={revision}"), ""))
        .await;
    let both = read_until(&mut resumed, "\"port\":82").await;
    assert!(both.contains("\"port\":81"), "{both}");
    let ids: Vec<u64> = both
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    let last = ids.iter().rev().nth(1).copied().unwrap_or(revision);
    let id = format!("Last-Event-ID: {last}\r\n");
    let mut later = chart
        .open(&request(&format!("/api/events?revision={revision}"), &id))
        .await;
    let rest = read_until(&mut later, "\"port\":82").await;
    assert!(!rest.contains("\"port\":81"), "{rest}");

    let mut behind = chart.open(&request("/api/events?revision=1", "")).await;
    let reload = read_until(&mut behind, "event: reload").await;
    assert!(reload.contains("data: {\"revision\":"), "{reload}");
    chart.events.send(watch_event("web", 83)).expect("a watch");
    read_until(&mut behind, "\"port\":83").await;
}

/// A reader that reads nothing costs no memory: changes are in the log only, which is bounded.
#[tokio::test]
async fn slow_reader_has_no_queue() {
    let services = (0..2_000).map(|index| {
        let mut service = service(&format!("s{index}"), 1);
        service["metadata"]["annotations"] = json!({});
        service
    });
    let chart = Chart::start(services.collect()).await;
    let cookie = chart.log_in().await;
    let revision = chart.snapshot(&cookie).await["revision"]
        .as_u64()
        .expect("a revision");
    let request = format!(
        "GET /api/events?revision={revision} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        chart.address
    );
    let idle = chart.open(&request).await;
    for round in 1..=5 {
        for index in 0..2_000 {
            chart
                .events
                .send(watch_event(&format!("s{index}"), round))
                .expect("a watch");
        }
    }
    let mut revisions = chart.feed.revisions();
    for _ in 0..6 {
        tokio::time::timeout(TIMEOUT, revisions.changed())
            .await
            .expect("a change")
            .expect("a feed");
        let metrics = chart.feed.metrics();
        assert!(metrics.change_bytes <= crate::feed::change_log::BYTES_MAX);
        assert!(metrics.changes <= crate::feed::change_log::CHANGES_MAX);
        assert!(metrics.history_bytes <= crate::view::history::BYTES_MAX);
        assert_eq!(metrics.services, 2_000);
    }
    drop(idle);
}

#[tokio::test]
async fn metrics_have_valid_text() {
    let chart = Chart::start(vec![service("web", 1)]).await;
    let cookie = chart.log_in().await;
    chart.snapshot(&cookie).await;
    let response = chart.get("/metrics", "").await;
    let body = response.split_once("\r\n\r\n").expect("a body").1;
    assert_eq!(telemetry::validate(body), Ok(()));
    for line in [
        "portolan_chart_sessions 1",
        "portolan_chart_services 1",
        "portolan_chart_synced 1",
        "portolan_chart_logins_total{result=\"success\"} 1",
    ] {
        assert!(body.lines().any(|found| found == line), "{line}: {body}");
    }
    assert!(
        !body.contains("shop") && !body.contains("ann"),
        "no name of the cluster"
    );
    assert_eq!(status(&chart.get("/healthz", "").await), 200);
}
