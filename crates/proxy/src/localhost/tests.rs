use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Returns a port that is probably free on both loopback addresses.
async fn free_port() -> (u16, TcpListener) {
    let listener = TcpListener::bind("127.0.0.2:0").await.expect("a port");
    (listener.local_addr().expect("an address").port(), listener)
}

async fn connected(port: u16, is_wanted: bool) -> Option<TcpStream> {
    const ATTEMPTS: usize = 500;
    for _ in 0..ATTEMPTS {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        if stream.is_ok() == is_wanted {
            return stream.ok();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("127.0.0.1:{port} does not become what it should");
}

#[tokio::test]
async fn localhost_ports_open_relay_and_close() {
    let ports = Arc::new(LocalhostPorts::default());
    let relay = tokio::spawn(relay_localhost(ports.clone()));
    let (port, endpoint) = free_port().await;
    let service = ObjectKey::new("ns", "web");
    let cluster_ip = SocketAddr::from(([127, 0, 0, 3], 80));
    ports.set(&service, NodePorts::from([(port, cluster_ip)]));
    ports.relay_to(RelayDestination::NodePort(IpAddr::from([127, 0, 0, 2])));
    let mut client = connected(port, true).await.expect("a connection");
    let (mut served, _) = endpoint.accept().await.expect("a connection");
    client.write_all(b"ask").await.expect("a write");
    client.shutdown().await.expect("a shutdown");
    let mut request = String::new();
    served.read_to_string(&mut request).await.expect("a read");
    assert_eq!(request, "ask");
    // The other direction is still open.
    served.write_all(b"answer").await.expect("a write");
    drop(served);
    let mut answered = String::new();
    client.read_to_string(&mut answered).await.expect("a read");
    assert_eq!(answered, "answer");
    assert_eq!(ports.accepted(), 1);

    ports.set(&service, NodePorts::new());
    connected(port, false).await;
    relay.abort();
}

#[tokio::test]
async fn client_gets_reset_without_listener() {
    let (port, endpoint) = free_port().await;
    drop(endpoint);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .expect("the port");
    let to = SocketAddr::from(([127, 0, 0, 2], port));
    let accepting = tokio::spawn(accept(listener, to, Arc::new(Semaphore::new(1)), Arc::default()));
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .expect("a connection");
    let error = client.read_u8().await.expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    accepting.abort();
}

#[tokio::test]
async fn loopback_only_ports_relay_to_cluster_ip() {
    let ports = Arc::new(LocalhostPorts::default());
    let relay = tokio::spawn(relay_localhost(ports.clone()));
    let (port, reserved) = free_port().await;
    let cluster_ip = TcpListener::bind("127.0.0.3:0").await.expect("a port");
    let address = cluster_ip.local_addr().expect("an address");
    ports.set(&ObjectKey::new("ns", "web"), NodePorts::from([(port, address)]));
    ports.relay_to(RelayDestination::ClusterIp);
    let client = connected(port, true).await.expect("a connection");
    cluster_ip.accept().await.expect("a relayed connection");
    ports.relay_to(RelayDestination::Nothing);
    connected(port, false).await;
    drop((client, reserved));
    relay.abort();
}
