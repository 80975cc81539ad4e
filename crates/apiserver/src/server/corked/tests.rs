use std::pin::pin;

use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use super::*;

/// A stream that counts the writes it gets.
struct Counted {
    stream: DuplexStream,
    writes: Arc<Mutex<usize>>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        *self.writes.lock().unwrap() += 1;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Both ends of a connection, and how often the near one has written to it since the handshake.
struct Ends {
    near: TlsStream<Counted>,
    far: client::TlsStream<DuplexStream>,
    writes: Arc<Mutex<usize>>,
}

async fn ends(room_bytes: usize) -> Ends {
    let (near, far) = duplex(room_bytes);
    let writes = Arc::new(Mutex::new(0));
    let near = Counted {
        stream: near,
        writes: writes.clone(),
    };
    let (acceptor, connector) = tls();
    let name = ServerName::try_from("localhost").unwrap();
    let (near, far) = tokio::join!(acceptor.accept(near), connector.connect(name, far));
    *writes.lock().unwrap() = 0;
    Ends {
        near: near.unwrap(),
        far: far.unwrap(),
        writes,
    }
}

fn tls() -> (TlsAcceptor, TlsConnector) {
    let provider = Arc::new(ring::default_provider());
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = pair.cert.der().clone();
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    // A far end that does not read yet has no room for them.
    server.send_tls13_tickets = 0;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (
        TlsAcceptor::from(Arc::new(server)),
        TlsConnector::from(Arc::new(client)),
    )
}

#[tokio::test]
async fn what_is_written_at_once_is_sent_at_once() {
    let Ends {
        near,
        mut far,
        writes,
    } = ends(1 << 20).await;
    let (mut corked, cork) = cork(near);
    let connection = async move {
        for _ in 0..100 {
            corked.write_all(b"frame").await.unwrap();
            corked.flush().await.unwrap();
        }
        // Still alive: nothing but the cork sends what was written.
        corked.read_u8().await.ok();
    };
    let reading = async move {
        let mut all = vec![0; 500];
        far.read_exact(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, cork.drive(connection, &mut streams));
    assert_eq!(all, b"frame".repeat(100));
    assert_eq!(*writes.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_slow_reader_gets_everything_in_order() {
    let Ends { near, mut far, .. } = ends(1_000).await;
    let (mut corked, cork) = cork(near);
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let expected = sent.clone();
    let connection = async move {
        for (number, piece) in sent.chunks(30_011).enumerate() {
            corked.write_all(piece).await.unwrap();
            if number % 3 == 0 {
                corked.flush().await.unwrap();
            }
        }
        corked.shutdown().await.unwrap();
    };
    let reading = async move {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        all
    };
    let (connection, mut streams) = (pin!(connection), Streams::default());
    let (all, ()) = tokio::join!(reading, cork.drive(connection, &mut streams));
    assert!(all == expected, "{} bytes came", all.len());
}

#[tokio::test]
async fn a_peer_that_is_gone_is_told() {
    let Ends { near, far, .. } = ends(10).await;
    let (mut corked, cork) = cork(near);
    drop(far);
    let connection = async move {
        loop {
            if let Err(error) = corked.write_all(b"frame").await {
                return error.kind();
            }
            if let Err(error) = corked.flush().await {
                return error.kind();
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = cork.drive(pin!(connection), &mut Streams::default()).await;
    assert_eq!(ended, io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_connection_that_goes_on_as_something_else_sends_by_itself() {
    let Ends { near, mut far, .. } = ends(1 << 20).await;
    let (mut corked, cork) = cork(near);
    let connection = async move {
        corked.write_all(b"101 ").await.unwrap();
        corked
    };
    let mut corked = cork.drive(pin!(connection), &mut Streams::default()).await;
    drop(cork);
    corked.write_all(b"tunnel").await.unwrap();
    let mut all = [0; 10];
    far.read_exact(&mut all).await.unwrap();
    assert_eq!(&all, b"101 tunnel");
}
