use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;

#[test]
fn ports_match_the_query() {
    assert_eq!(ports("port=80"), Some(vec![80]));
    assert_eq!(ports("port=80&x=1&port=81,82"), Some(vec![80, 81, 82]));
    for invalid in ["", "ports=80", "port=", "port=0", "port=65536", "port=80&port=x"] {
        assert_eq!(ports(invalid), None, "{invalid}");
    }
    let many = "80,".repeat(PORTS_MAX);
    assert_eq!(ports(&format!("port={many}80")), None);
}

#[tokio::test]
async fn channels_carry_ports_data_and_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let closed = unused.local_addr().expect("an address").port();
    drop(unused);
    let (near, far) = tokio::io::duplex(1 << 20);
    let network = NetworkNamespace::current().expect("the namespace of the test");
    let serving = tokio::spawn(serve(
        near,
        Encoding::Binary,
        network,
        "web".to_owned(),
        vec![port, closed],
    ));
    let mut client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
    client
        .send(Message::binary(b"\0query".to_vec()))
        .await
        .expect("sent");
    let (mut connection, _) = listener.accept().await.expect("a connection");
    let mut query = [0; 5];
    connection.read_exact(&mut query).await.expect("a query");
    assert_eq!(&query, b"query");
    connection.write_all(b"response").await.expect("written");
    drop(connection);
    let mut channels = vec![Vec::new(); 4];
    while let Some(Ok(message)) = client.next().await {
        match message {
            Message::Binary(content) => channels[usize::from(content[0])].extend_from_slice(&content[1..]),
            Message::Close(_) => break,
            _ => {}
        }
    }
    assert_eq!(channels[0], [&port.to_le_bytes()[..], b"response"].concat());
    assert_eq!(channels[1], port.to_le_bytes());
    assert_eq!(channels[2], closed.to_le_bytes());
    let error = String::from_utf8_lossy(&channels[3][2..]).into_owned();
    assert!(
        error.starts_with(&format!("error forwarding port {closed} to pod web: ")),
        "{error}"
    );
    serving.await.expect("served");
}
