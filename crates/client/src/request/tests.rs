use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers every request with an empty object.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

/// The URL of a port without a listener.
async fn url_without_listener() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn falls_back_to_next_server() {
    let (gone, also_gone, there) = (
        url_without_listener().await,
        url_without_listener().await,
        server().await,
    );
    let client = Client::new(Config {
        server: gone.clone(),
        further_servers: vec![also_gone, there.clone()],
        ..Config::default()
    })
    .unwrap();
    assert_eq!(client.server(), gone);
    assert_eq!(client.unreachable_for(), None);
    for _ in 0..2 {
        let error = client.get::<Value>("/version").await.unwrap_err();
        assert!(matches!(error, ClientError::Transport { .. }), "{error}");
        assert!(client.unreachable_for().is_some());
    }
    client.get::<Value>("/version").await.unwrap();
    assert_eq!(client.unreachable_for(), None);
    assert_eq!(client.server(), there);
}

#[tokio::test]
async fn single_server_is_kept() {
    let gone = url_without_listener().await;
    let client = Client::new(Config {
        server: gone.clone(),
        ..Config::default()
    })
    .unwrap();
    client.get::<Value>("/version").await.unwrap_err();
    assert_eq!(client.server(), gone);
}

#[test]
fn components_have_distinct_user_agents() {
    let client = Client::new(Config::default()).unwrap();
    let agent_of = |client: &Client| {
        let request = client
            .build("", Method::GET, "/version", JSON, Bytes::new())
            .unwrap();
        request.headers()[USER_AGENT].to_str().unwrap().to_owned()
    };
    assert!(agent_of(&client).starts_with("portolan/v"));
    let named = client.clone().named("portolan-proxy");
    let agent = agent_of(&named);
    let rest = agent.strip_prefix("portolan-proxy/v").unwrap();
    let (version, platform) = rest.split_once(' ').unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(
        platform.starts_with("(linux/") && platform.ends_with(')'),
        "{platform}"
    );
    let fenced = named.fenced(Fence::closed(crate::clock::WallClock::system()));
    assert_eq!(agent_of(&fenced), agent);
}
