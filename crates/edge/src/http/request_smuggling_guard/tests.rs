use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

impl AbortiveClose for DuplexStream {
    fn abort_on_drop(&mut self) {}
}

/// Pieces of valid and invalid requests.
const PIECES: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "POST /b HTTP/1.1\r\nHost: a\r\n",
    "GET http://a/ HTTP/1.1\r\nHost: a\r\n",
    "Content-Length: 4\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "A: b\r\n",
    "\r\n",
    "\r\n",
    "\r\n",
    "4\r\nabcd\r\n",
    "0\r\n\r\n",
    "abcd",
    "\n",
    "\r",
    " ",
    ":",
];

fn guard(stream: DuplexStream, timeout: Duration) -> RequestSmugglingGuard<DuplexStream> {
    RequestSmugglingGuard::new(stream, BytesMut::new(), timeout, Arc::new(Activity::new()))
}

/// Returns the paths, and the complete bodies, that a parser behind a guard sees when `parts` are sent one
/// after the other.
fn served(parts: Vec<Vec<u8>>) -> Vec<(String, Option<Vec<u8>>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let seen = Mutex::new(Vec::new());
    runtime.block_on(async {
        let (mut client, server) = duplex(64);
        let service = service_fn(|request: Request<Incoming>| {
            let seen = &seen;
            async move {
                seen.lock().unwrap().push((request.uri().path().to_owned(), None));
                if let Ok(body) = request.into_body().collect().await {
                    let mut seen = seen.lock().unwrap();
                    seen.last_mut().unwrap().1 = Some(body.to_bytes().to_vec());
                }
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
            }
        });
        let connection = http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(guard(server, TIMEOUT)), service);
        let talk = async {
            let (mut from, mut to) = tokio::io::split(&mut client);
            let send = async {
                for part in parts {
                    if to.write_all(&part).await.is_err() {
                        break;
                    }
                }
                to.shutdown().await.unwrap_or_default();
            };
            let mut answers = Vec::new();
            tokio::join!(send, async {
                from.read_to_end(&mut answers).await.unwrap_or_default()
            });
        };
        let _ended: (Result<(), hyper::Error>, ()) = tokio::join!(connection, talk);
    });
    seen.into_inner().unwrap()
}

/// Returns the number of admitted heads, and true if a request is rejected.
fn admitted(bytes: &[u8]) -> (usize, bool) {
    let (mut framing, mut left, mut heads) = (Framing::default(), bytes, 0);
    loop {
        let position = framing.position();
        match framing.admit(left) {
            Err(_) => return (heads, position != Position::Body),
            Ok(admitted) if admitted.bytes == 0 => return (heads, false),
            Ok(admitted) => {
                left = &left[admitted.bytes..];
                heads += usize::from(admitted.is_head_complete);
            }
        }
    }
}

fn request(number: usize, body: &[u8], is_chunked: bool, chunk: usize) -> Vec<u8> {
    let mut bytes = format!("POST /{number} HTTP/1.1\r\nHost: a\r\n").into_bytes();
    if !is_chunked {
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(body);
        return bytes;
    }
    bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
    for part in body.chunks(chunk) {
        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

proptest! {
    /// The guard and the parser behind it agree on the boundaries and bodies of requests.
    #[test]
    fn parser_receives_the_sent_requests(
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), any::<bool>(), 1usize..50), 0..5),
        part in 1usize..100,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (number, (body, is_chunked, chunk)) in bodies.iter().enumerate() {
            bytes.extend(request(number, body, *is_chunked, *chunk));
            expected.push((format!("/{number}"), Some(body.clone())));
        }
        let parts = bytes.chunks(part).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(served(parts), expected);
    }

    /// The parser sees exactly the admitted requests, whatever arrives.
    #[test]
    fn parser_receives_only_admitted_requests(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..14),
        part in 1usize..100,
    ) {
        let bytes = pieces.concat().into_bytes();
        let (heads, is_rejected) = admitted(&bytes);
        let parts = bytes.chunks(part).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(served(parts).len(), heads + usize::from(is_rejected));
    }
}

#[test]
fn rejected_request_is_replaced_in_order() {
    let valid = request(0, b"abc", false, 1);
    let list = served(vec![
        valid,
        b"POST /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
    ]);
    // The replacement that the parser gets contains nothing of the rejected request.
    assert_eq!(
        list,
        [
            ("/0".to_owned(), Some(b"abc".to_vec())),
            ("/".to_owned(), Some(Vec::new()))
        ]
    );
}

#[tokio::test]
async fn handle_names_the_rejected_request() {
    let (mut client, server) = duplex(1024);
    let mut guard = guard(server, TIMEOUT);
    let handle = guard.handle();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n(")
        .await
        .unwrap();
    let mut buffer = [0; 1024];
    let first = guard.read(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..first], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((handle.rejection(1), handle.rejection(2)), (None, None));
    let second = guard.read(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..second], REPLACEMENT);
    assert_eq!(handle.rejection(1), None);
    assert!(matches!(
        handle.rejection(2),
        Some(RequestRejection::Malformed(_))
    ));
}

#[tokio::test]
async fn rejects_slow_heads() {
    let (mut client, server) = duplex(1024);
    let mut guard = guard(server, Duration::from_millis(10));
    let handle = guard.handle();
    client.write_all(b"GET / HT").await.unwrap();
    let mut buffer = [0; 1024];
    let count = guard.read(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..count], REPLACEMENT);
    assert_eq!(handle.rejection(1), Some(RequestRejection::Slow));
}

#[tokio::test]
async fn rejected_body_fails() {
    let (mut client, server) = duplex(1024);
    let mut guard = guard(server, TIMEOUT);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(head).await.unwrap();
    client.write_all(b"3\r\nabcd").await.unwrap();
    let mut all = Vec::new();
    let error = guard.read_to_end(&mut all).await.unwrap_err();
    assert_eq!(all, [&head[..], b"3\r\nabc"].concat());
    let rejection = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<RequestRejection>());
    assert!(
        matches!(rejection, Some(RequestRejection::Malformed(_))),
        "{error}"
    );
}

#[tokio::test]
async fn passes_bytes_of_another_protocol() {
    let (mut client, server) = duplex(1024);
    let mut guard = guard(server, TIMEOUT);
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n";
    client.write_all(head).await.unwrap();
    client.write_all(b"\0\x01").await.unwrap();
    let mut buffer = vec![0; head.len()];
    guard.read_exact(&mut buffer).await.unwrap();
    guard.handle().tunnel();
    let mut next = [0; 2];
    guard.read_exact(&mut next).await.unwrap();
    assert_eq!(next, [0, 1]);
}
