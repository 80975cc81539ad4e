use std::convert::Infallible;

use api::object::Service;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::*;
use crate::Config;

const LIST: &str = r#"{"metadata":{"resourceVersion":"10"},
    "items":[{"metadata":{"name":"a","namespace":"n","resourceVersion":"1"},"spec":{}}]}"#;

/// Answers lists with one Service, and watches never. Records the paths of the lists.
async fn server() -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let lists = Arc::new(Mutex::new(Vec::new()));
    let paths = Arc::clone(&lists);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let paths = Arc::clone(&paths);
            let answer = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().to_string();
                let is_watch = path.contains("watch=true");
                if !is_watch {
                    paths.lock().expect("lock").push(path);
                }
                async move {
                    if is_watch {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(LIST.as_bytes()))))
                }
            });
            tokio::spawn(async move {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await
            });
        }
    });
    let client = Client::new(Config {
        server: format!("http://{address}"),
        ..Config::default()
    });
    (client.expect("a client"), lists)
}

/// Reads one list: the names of its objects, and its revision.
async fn list_of(subscription: &mut Subscription<Service>) -> (Vec<String>, u64) {
    let mut names = Vec::new();
    loop {
        match subscription.next().await.expect("a running watch") {
            (Event::Applied(service), _) => names.push(service.metadata.name.clone()),
            (Event::Synced, revision) => return (names, revision),
            (event, _) => panic!("unexpected event: {event:?}"),
        }
    }
}

fn expected() -> (Vec<String>, u64) {
    (vec!["a".to_owned()], 10)
}

#[tokio::test]
async fn subscribers_share_one_list() {
    let (client, lists) = server().await;
    let watch = SharedWatch::<Service>::new(&client);
    let (mut first, mut second) = (watch.subscribe(), watch.clone().subscribe());
    assert_eq!(list_of(&mut first).await, expected());
    assert_eq!(list_of(&mut second).await, expected());
    assert_eq!(lists.lock().expect("lock").len(), 1);
}

#[tokio::test]
async fn later_subscriber_receives_a_complete_list() {
    let (client, lists) = server().await;
    let watch = SharedWatch::<Service>::new(&client);
    let mut first = watch.subscribe();
    assert_eq!(list_of(&mut first).await, expected());
    let mut second = watch.subscribe();
    assert_eq!(list_of(&mut second).await, expected());
    assert_eq!(list_of(&mut first).await, expected());
    assert_eq!(lists.lock().expect("lock").len(), 2);
}

#[tokio::test]
async fn watch_ends_with_the_last_subscriber_and_starts_again() {
    let (client, lists) = server().await;
    let watch = SharedWatch::<Service>::new(&client);
    let mut first = watch.subscribe();
    assert_eq!(list_of(&mut first).await, expected());
    let task = watch.state.waiting().task.take().expect("a task");
    drop(first);
    task.await.expect("a regular end");
    let mut second = watch.subscribe();
    assert_eq!(list_of(&mut second).await, expected());
    assert_eq!(lists.lock().expect("lock").len(), 2);
}
