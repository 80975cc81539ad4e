//! HTTP/2 with clients: streams, trailers, limits and malformed requests.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use edge::{Options, Shares};
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::backend::{Backend, OK};
use crate::served::{Served, served, service};

pub(crate) type Sender<B> = hyper::client::conn::http2::SendRequest<B>;

pub(crate) async fn connect<B>(to: SocketAddr) -> Sender<B>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

/// Connects a client that sends no requests before it knows how many may be under way.
async fn connect_with_settings(to: SocketAddr) -> Sender<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_max_send_streams(0_usize);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn http2_requests_reach_http11_backends() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let mut client = connect(served.address).await;
    let request = Request::post("http://a.example/b?c=d")
        .version(Version::HTTP_2)
        .header("cookie", "a=b")
        .header("cookie", "c=d")
        .header("te", "trailers")
        .body(Full::new(Bytes::from("hello")))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.version()),
        (200, Version::HTTP_2)
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let seen = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        seen.starts_with("POST /b?c=d HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nhello"),
        "{seen}"
    );
    for field in [
        "host: a.example",
        "cookie: a=b; c=d",
        "te: trailers",
        "x-forwarded-for: 127.0.0.1",
        "content-length: 5",
    ] {
        assert!(seen.contains(&format!("\r\n{field}\r\n")), "{field}: {seen}");
    }
}

#[tokio::test]
async fn forwards_streams_with_trailers_in_both_directions() {
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n";
    let backend = Backend::answering(response);
    let served = served(&[backend.address]);
    let mut client = connect(served.address).await;
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "5".parse().unwrap())]);
    let frames = [Frame::data(Bytes::from("hello")), Frame::trailers(trailers)].map(Ok::<_, std::io::Error>);
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let request = Request::post("http://a/")
        .header("trailer", "x-sum")
        .body(body)
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "2");
    assert_eq!(collected.to_bytes(), "ok");
    let seen = &backend.recorded()[0];
    assert!(
        seen.ends_with("\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n"),
        "{seen}"
    );
}

#[tokio::test]
async fn requests_share_a_connection() {
    let backend = Backend::echoing();
    let served = served(&[backend.address]);
    let client = connect(served.address).await;
    let requests = (0..50).map(|number| {
        let mut client = client.clone();
        async move {
            let request = Request::get(format!("http://a/{number}"))
                .body(Full::<Bytes>::default())
                .unwrap();
            let response = client.send_request(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.starts_with(format!("GET /{number} HTTP/1.1").as_bytes()));
        }
    });
    futures_util::future::join_all(requests).await;
    assert_eq!(backend.recorded().len(), 50);
}

/// Each request has a connection to a backend. Without the limit, requests of few connections take all file descriptors.
#[tokio::test]
async fn requests_beyond_the_first_count_as_connections() {
    let backend = Backend::start(|connection| while connection.request().is_some() {});
    let options = Options {
        connections_max: 40,
        shares: Shares {
            service_percent: 100,
            client_percent: 50,
        },
        ..Options::default()
    };
    let served = Served::with(options, service(&[backend.address]));
    let mut requests = tokio::task::JoinSet::new();
    let mut start = |client: &Sender<Full<Bytes>>| {
        for _ in 0..30 {
            let mut client = client.clone();
            requests.spawn(async move {
                let request = Request::get("http://a/").body(Full::default()).unwrap();
                client.send_request(request).await.unwrap().status()
            });
        }
    };
    // The share of the client is 20. Further requests of its first connection wait, and are not refused.
    start(&connect_with_settings(served.address).await);
    for _ in 0..1_000 {
        if backend.connections() == 21 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(backend.connections(), 21);
    start(&connect_with_settings(served.address).await);
    for _ in 0..29 {
        assert_eq!(requests.join_next().await.unwrap().unwrap(), 503);
    }
    assert!(requests.try_join_next().is_none());
    assert!(backend.connections() <= 22, "{}", backend.connections());
}

#[tokio::test]
async fn drain_sends_goaway() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let mut client = connect(served.address).await;
    let request = || Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
    let response = client.send_request(request()).await.unwrap();
    response.into_body().collect().await.unwrap();
    served.edge.drain(Duration::from_secs(20)).await;
    assert!(client.send_request(request()).await.is_err());
}

#[tokio::test]
async fn maximum_age_sends_goaway() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.connection_age_max = Some(Duration::from_millis(300));
    let served = Served::new(service);
    let mut client = connect(served.address).await;
    let request = || Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
    let response = client.send_request(request()).await.unwrap();
    response.into_body().collect().await.unwrap();
    while client.ready().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut next = connect(served.address).await;
    let response = next.send_request(request()).await.unwrap();
    assert_eq!(response.status(), 200);
}

/// Returns an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Fields as literals without indexing and with literal names.
fn fields(list: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        assert!(text.len() < 127);
        [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    };
    list.iter()
        .flat_map(|(name, value)| [vec![0], text(name), text(value)].concat())
        .collect()
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns the kinds of the frames of a response on stream 1, until one ends it, and the payload of that.
fn raw(to: SocketAddr, frames: &[Vec<u8>]) -> (u8, Vec<u8>) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream.write_all(&frames.concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        if matches!(head[3], HEADERS | RST_STREAM | GOAWAY) {
            return (head[3], payload);
        }
    }
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/"),
];

#[test]
fn rejects_malformed_requests() {
    let with = |extra: &[(&str, &str)]| {
        frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            1,
            &fields(&[&GET, extra].concat()),
        )
    };
    let pseudo = |list: &[(&str, &str)]| frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields(list));
    let shapes = [
        with(&[("connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "websocket")]),
        with(&[("keep-alive", "1")]),
        with(&[("Upper", "a")]),
        with(&[("a b", "c")]),
        with(&[("a", "b\r\nc: d")]),
        with(&[("a", "b\0")]),
        with(&[("a", " b")]),
        with(&[("host", "b")]),
        with(&[("content-length", "5")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
        with(&[("te", "gzip")]),
        with(&[(":path", "/b")]),
        pseudo(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/b c"),
        ]),
        pseudo(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/b\r\nc: d"),
        ]),
        pseudo(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a@b"),
            (":path", "/"),
        ]),
        pseudo(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]),
        pseudo(&[
            (":method", "GET /a HTTP/1.1\r\nb: c"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/"),
        ]),
        pseudo(&[(":method", "CONNECT"), (":authority", "b:443")]),
    ];
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    for shape in shapes {
        let (kind, payload) = raw(served.address, std::slice::from_ref(&shape));
        // The first field of a response is its status: 400 from the static table, 405 as a literal.
        let is_answer =
            kind == HEADERS && (payload[0] == 0x8c || payload.windows(3).any(|window| window == b"405"));
        let is_coded = kind == HEADERS && payload.first().is_some_and(|first| first & 0xc0 == 0x40);
        assert!(
            kind == RST_STREAM || kind == GOAWAY || is_answer || is_coded,
            "{shape:?}: {kind} {payload:?}"
        );
    }
    assert_eq!(backend.recorded(), Vec::<String>::new());
}

#[test]
fn closes_idle_http2_connections() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let (kind, _) = raw(served.address, &[]);
    assert_eq!(kind, GOAWAY);
}

/// Reads frames until one of a kind, and returns its payload.
fn payload_of(stream: &mut TcpStream, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == kind {
            return payload;
        }
    }
}

#[test]
fn pings_do_not_prevent_the_idle_timeout() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.idle_timeout = Duration::from_millis(300);
    let served = Served::new(service);
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    let mut pinging = stream.try_clone().unwrap();
    let pings = std::thread::spawn(move || {
        // Ends when the edge closes the connection.
        while pinging.write_all(&frame(PING, 0, 0, &[7; 8])).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let goaway = payload_of(&mut stream, GOAWAY);
    // The connection ends because of its idle timeout, without an error.
    assert_eq!(goaway.get(4..8), Some([0; 4].as_slice()));
    stream.shutdown(std::net::Shutdown::Both).unwrap();
    pings.join().unwrap();
}

#[test]
fn flood_of_pings_ends_the_connection() {
    let backend = Backend::answering(OK);
    let served = served(&[backend.address]);
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    // More than the edge permits even if they arrive in two intervals.
    stream.write_all(&frame(PING, 0, 0, &[7; 8]).repeat(201)).unwrap();
    let goaway = payload_of(&mut stream, GOAWAY);
    let enhance_your_calm = [0, 0, 0, 11];
    assert_eq!(goaway.get(4..8), Some(enhance_your_calm.as_slice()));
}

#[tokio::test]
async fn forwards_informational_responses() {
    let backend = Backend::start(|connection| {
        while connection.head().is_some() {
            connection.answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nKeep-Alive: 5\r\n\r\n");
            connection.answer(b"HTTP/1.1 100 Continue\r\n\r\n");
            let body = connection.take(5).unwrap();
            connection.answer(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").as_bytes());
        }
    });
    let served = served(&[backend.address]);
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = Request::post("http://a/")
            .header("expect", "100-continue")
            .header("content-length", "5")
            .body(())
            .unwrap();
        let (mut response, mut body) = client.send_request(request, false).unwrap();
        let hints = poll_fn(|cx| response.poll_informational(cx))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(hints.status(), 103);
        assert_eq!(hints.headers()["link"], "</a.css>");
        assert!(!hints.headers().contains_key("keep-alive"));
        let informational = poll_fn(|cx| response.poll_informational(cx))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(informational.status(), 100);
        body.send_data(Bytes::from("hello"), true).unwrap();
        let mut response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("date"));
        assert_eq!(response.body_mut().data().await.unwrap().unwrap(), "hello");
    }
}

#[tokio::test]
async fn cancelled_body_is_truncated_for_the_backend() {
    let backend = Backend::start(|connection| while connection.request().is_some() {});
    let served = served(&[backend.address]);
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://a/").body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(Bytes::from("hello"), false).unwrap();
    wait_until(|| {
        backend
            .recorded()
            .iter()
            .any(|request| request.ends_with("5\r\nhello\r\n"))
    })
    .await;
    body.send_reset(h2::Reason::CANCEL);
    assert!(response.await.is_err());
    // Other requests continue, and nothing ends the body.
    wait_until(|| served.edge.metrics().contains("code=\"499\"} 1")).await;
    assert!(
        backend.recorded()[0].ends_with("5\r\nhello\r\n"),
        "{}",
        backend.recorded()[0]
    );
}

async fn wait_until(is_so: impl Fn() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the condition in time");
}
