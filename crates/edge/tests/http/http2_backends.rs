//! HTTP/2 with backends: connections, early hints and long bodies.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use edge::settings::BackendProtocol;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::{Client, assert_status, exchange};
use crate::http2;
use crate::served::{Served, service};
use crate::tls::{identity, server};

type Answering = SendResponse<Bytes>;

/// Returns an edge whose backend runs `serve` for each connection, with its number from 1.
async fn served<F>(
    serve: impl Fn(Connection<TlsStream<TcpStream>, Bytes>, usize) -> F + Send + 'static,
) -> Served
where
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(Arc::new(server(&identity(), &["h2"])));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            let stream = acceptor.accept(stream).await.unwrap();
            let connection = h2::server::handshake(stream).await.unwrap();
            number += 1;
            tokio::spawn(serve(connection, number));
        }
    });
    let mut service = service(&[address]);
    service.listeners[0].backend_protocol = BackendProtocol::Https;
    Served::new(service)
}

/// Returns an edge whose backend has HTTP/2 without TLS, and responds with the scheme and the body of each request, and
/// with a trailer. `connections` counts its connections.
async fn served_without_tls(connections: Arc<AtomicUsize>) -> Served {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            let mut connection = h2::server::handshake(stream).await.unwrap();
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        let scheme = request.uri().scheme_str().unwrap_or_default().to_owned();
                        let body = read(request.into_body()).await;
                        let mut stream = respond.send_response(ok(), false).unwrap();
                        stream
                            .send_data([scheme.as_bytes(), &body].concat().into(), false)
                            .unwrap();
                        let trailers = [("grpc-status".parse().unwrap(), "0".parse().unwrap())];
                        stream.send_trailers(trailers.into_iter().collect()).unwrap();
                    });
                }
            });
        }
    });
    let mut service = service(&[address]);
    service.listeners[0].backend_protocol = BackendProtocol::Http2;
    Served::new(service)
}

/// Requests of gRPC: HTTP/2 with prior knowledge on both sides, with trailers.
#[tokio::test(flavor = "multi_thread")]
async fn backends_without_tls_get_http2_with_prior_knowledge() {
    let connections = Arc::<AtomicUsize>::default();
    let served = served_without_tls(connections.clone()).await;
    let stream = TcpStream::connect(served.address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let mut sender = sender.clone().ready().await.unwrap();
        let request = Request::post("http://a/package.Service/Method").body(()).unwrap();
        let (response, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(Bytes::from("+message"), true).unwrap();
        let mut answer = response.await.unwrap().into_body();
        let mut received = Vec::new();
        while let Some(data) = answer.data().await {
            received.extend_from_slice(&data.unwrap());
        }
        assert_eq!(received, b"http+message");
        let trailers = answer.trailers().await.unwrap().expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    }
    assert_eq!(
        connections.load(Ordering::Relaxed),
        1,
        "requests share a connection"
    );
    // A client with HTTP/1.1 reaches the same backend.
    let address = served.address;
    let response = tokio::task::spawn_blocking(move || {
        exchange(address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    });
    assert_status(&response.await.unwrap(), 200);
}

/// Returns an edge whose backend responds to each request with `answer`.
async fn answering<F>(answer: impl Fn(Request<RecvStream>, Answering) -> F + Clone + Send + 'static) -> Served
where
    F: Future<Output = ()> + Send + 'static,
{
    served(move |mut connection, _| {
        let answer = answer.clone();
        async move {
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond));
            }
        }
    })
    .await
}

fn ok() -> Response<()> {
    Response::new(())
}

/// All of a body.
async fn read(mut body: RecvStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn early_hints_precede_the_response() {
    let (go, may_go) = mpsc::channel::<()>(1);
    let may_go = Arc::new(tokio::sync::Mutex::new(may_go));
    let served = answering(move |request, mut respond: Answering| {
        let may_go = may_go.clone();
        async move {
            assert_eq!(request.uri().path(), "/hints");
            let hints = Response::builder()
                .status(103)
                .header("link", "</a.css>; rel=preload");
            respond.send_informational(hints.body(()).unwrap()).unwrap();
            may_go.lock().await.recv().await.unwrap();
            let processing = Response::builder().status(102).body(()).unwrap();
            respond.send_informational(processing).unwrap();
            let mut body = respond.send_response(ok(), false).unwrap();
            body.send_data(Bytes::from("ok"), true).unwrap();
        }
    })
    .await;
    // HTTP/1.1.
    let address = served.address;
    let sent = go.clone();
    tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address);
        client.send("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            client.head(),
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n"
        );
        // The hints arrive before the backend responds.
        sent.blocking_send(()).unwrap();
        assert_eq!(client.head(), "HTTP/1.1 102 Processing\r\n\r\n");
        assert_status(&client.head(), 200);
    })
    .await
    .unwrap();
    // HTTP/2.
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://a/hints").body(()).unwrap();
    let (mut answer, _) = sender.send_request(request, true).unwrap();
    let hints = poll_fn(|cx| answer.poll_informational(cx))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (hints.status().as_u16(), &hints.headers()["link"]),
        (103, &"</a.css>; rel=preload".parse().unwrap())
    );
    go.send(()).await.unwrap();
    let processing = poll_fn(|cx| answer.poll_informational(cx))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(processing.status().as_u16(), 102);
    assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_bodies_arrive_complete_in_both_directions() {
    let served = answering(
        |request: Request<RecvStream>, mut respond: Answering| async move {
            let body = read(request.into_body()).await;
            let mut stream = respond.send_response(ok(), false).unwrap();
            stream.send_data(body.into(), true).unwrap();
        },
    )
    .await;
    let words: Vec<u8> = (0..3_000_000).map(|number| (number % 251) as u8).collect();
    let client = http2::connect(served.address).await;
    let posts = (0..4).map(|_| {
        let (mut client, words) = (client.clone(), words.clone());
        async move {
            let request = Request::post("http://a/")
                .body(Full::new(Bytes::from(words.clone())))
                .unwrap();
            let answer = client.send_request(request).await.unwrap();
            let received = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(received == words, "{} bytes", received.len());
        }
    });
    futures_util::future::join_all(posts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn response_may_precede_the_end_of_its_request() {
    let served = answering(|_request, mut respond: Answering| async move {
        let refused = Response::builder().status(413).body(()).unwrap();
        let mut body = respond.send_response(refused, false).unwrap();
        body.send_data(Bytes::from("too much"), true).unwrap();
        // A reset without an error means that the request is not read further.
    })
    .await;
    let address = served.address;
    let answer = tokio::task::spawn_blocking(move || {
        let body = "x".repeat(300_000);
        exchange(
            address,
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
                2 << 20
            ),
        )
    });
    let answer = answer.await.unwrap();
    assert_status(&answer, 413);
    assert!(answer.contains("too much"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn goaway_opens_a_new_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let served = served(move |mut connection, number| {
        counted.store(number, Ordering::SeqCst);
        async move {
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut body = respond.send_response(ok(), false).unwrap();
                body.send_data(Bytes::from("ok"), true).unwrap();
                connection.graceful_shutdown();
            }
        }
    })
    .await;
    let mut client = http2::connect(served.address).await;
    for _ in 0..3 {
        let request = Request::post("http://a/").body(Full::<Bytes>::default()).unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    }
    assert!(connections.load(Ordering::SeqCst) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_stream_is_502() {
    let served = answering(
        |request: Request<RecvStream>, mut respond: Answering| async move {
            if request.uri().path() == "/never" {
                return respond.send_reset(Reason::INTERNAL_ERROR);
            }
            let mut body = respond.send_response(ok(), false).unwrap();
            body.send_data(Bytes::from("half"), false).unwrap();
            // Earlier data is on its way by then.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            body.send_reset(Reason::CANCEL);
        },
    )
    .await;
    let mut client = http2::connect(served.address).await;
    let get = |path: &str| {
        let request = Request::get(format!("http://a{path}"));
        request.body(Full::<Bytes>::default()).unwrap()
    };
    let answer = client.send_request(get("/never")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
    let answer = client.send_request(get("/half")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_abort_resets_the_backend_stream() {
    let (came, mut has_come) = mpsc::channel(1);
    let (observed, mut is_observed) = mpsc::channel(1);
    let served = answering(move |_request, mut respond: Answering| {
        let (came, observed) = (came.clone(), observed.clone());
        async move {
            came.send(()).await.unwrap();
            let reason = poll_fn(|cx| respond.poll_reset(cx)).await.unwrap();
            observed.send(reason).await.unwrap();
        }
    })
    .await;
    let mut client = Client::connect(served.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    has_come.recv().await.unwrap();
    drop(client);
    assert_eq!(is_observed.recv().await, Some(Reason::CANCEL));
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_unused_backend_connections() {
    let (ended, mut has_ended) = mpsc::channel(1);
    let mut served = served(move |mut connection, _| {
        let ended = ended.clone();
        async move {
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(ok(), true).unwrap();
            }
            ended.send(()).await.unwrap();
        }
    })
    .await;
    let address = served.address;
    let answer = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.head()
    });
    assert_status(&answer.await.unwrap(), 200);
    served.service.listeners[0].backends.clear();
    served.apply();
    assert_eq!(has_ended.recv().await, Some(()));
}
