use streams::spdy::{Connection, Event, Role};

use super::*;

#[tokio::test]
async fn connections_beyond_the_limit_are_refused() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let network = NetworkNamespace::current().expect("the namespace of the test");
    let serving = tokio::spawn(serve(near, network, "web".to_owned()));
    let mut client = Connection::new(Role::Client);
    let mut last = 0;
    for id in 0..=CONNECTIONS_MAX {
        let mut headers = Headers::new();
        headers.insert("streamtype".to_owned(), "error".to_owned());
        headers.insert("port".to_owned(), "80".to_owned());
        headers.insert("requestid".to_owned(), id.to_string());
        last = client.open(&headers).expect("headers");
    }
    far.write_all(&client.take_output()).await.expect("written");
    let mut buffer = vec![0; READ_BYTES_MAX];
    let (refused, message) = loop {
        let length = far.read(&mut buffer).await.expect("read");
        assert!(length > 0, "the connection stays open");
        let events = client.receive(&buffer[..length]).expect("frames");
        let data = events.into_iter().find_map(|event| match event {
            Event::Data { stream, bytes } => Some((stream, bytes)),
            _ => None,
        });
        if let Some(data) = data {
            break data;
        }
    };
    assert_eq!(refused, last);
    assert_eq!(message, "too many forwarded connections");
    drop(far);
    serving.await.expect("served");
}
