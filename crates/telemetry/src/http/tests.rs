use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn new_connection_displaces_the_oldest_one_of_the_busiest_client() {
    let sources = addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.1", "10.0.0.2"]);
    assert_eq!(displaced_connection(&sources), Some(1));
    assert_eq!(
        displaced_connection(&addresses(&["10.0.0.1", "10.0.0.2"])),
        Some(0)
    );
    assert_eq!(displaced_connection(&[]), None);
}

#[test]
fn addresses_of_one_ipv6_network_are_one_source() {
    let sources = addresses(&["2001:db8::1", "2001:db8::2:0:0:1", "::ffff:10.0.0.1"]);
    let sources: Vec<IpAddr> = sources.into_iter().map(client_network).collect();
    assert_eq!(sources, addresses(&["2001:db8::", "2001:db8::", "10.0.0.1"]));
}

#[tokio::test]
async fn idle_connections_do_not_keep_a_new_one_out() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let handler: Handler = Arc::new(|_| Response::text(StatusCode::OK, "ok"));
    let server = tokio::spawn(serve(listener, handler));
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    server.abort();
}

#[tokio::test]
async fn limit_of_connections_can_decrease() {
    let mut open = OpenConnections::default();
    let mut connections = JoinSet::<()>::new();
    for source in addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]) {
        open.make_room(4);
        open.0
            .push_back((source, connections.spawn(std::future::pending())));
    }
    assert_eq!(open.0.len(), 4);
    open.make_room(3);
    let sources: Vec<IpAddr> = open.0.iter().map(|(source, _)| *source).collect();
    assert_eq!(sources, addresses(&["10.0.0.1", "10.0.0.2"]));
    for _ in 0..2 {
        assert!(connections.join_next().await.is_some_and(|ended| ended.is_err()));
    }
}
