use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::stream::AbortiveClose;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (
        near.expect("a connection"),
        far.expect("an accepted connection").0,
    )
}

/// Returns a client and a backend with a relay between them.
async fn joined(
    idle: Duration,
) -> (
    TcpStream,
    TcpStream,
    JoinHandle<(RelayOutcome, RelayedBytes)>,
    Arc<PortCounters>,
) {
    let (client, mut from_client) = pair().await;
    let (mut to_backend, backend) = pair().await;
    let counters = Arc::new(PortCounters::default());
    let counted = counters.clone();
    let task = tokio::spawn(async move {
        let mut passed = RelayedBytes::default();
        let outcome = relay(
            &mut from_client,
            &mut to_backend,
            InitialData::default(),
            idle,
            &counted,
            &mut passed,
        )
        .await;
        (outcome, passed)
    });
    (client, backend, task, counters)
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn directions_end_independently() {
    let (mut client, mut backend, task, counters) = joined(LONG).await;
    client.write_all(b"question").await.expect("the data is written");
    client.shutdown().await.expect("the end of the connection");
    let mut question = String::new();
    backend
        .read_to_string(&mut question)
        .await
        .expect("data until the end");
    assert_eq!(question, "question");
    backend
        .write_all(b"a late answer")
        .await
        .expect("the data is written");
    drop(backend);
    let mut answer = String::new();
    client
        .read_to_string(&mut answer)
        .await
        .expect("data until the end");
    assert_eq!(answer, "a late answer");
    let (outcome, passed) = task.await.expect("the end of the task");
    assert_eq!(outcome, RelayOutcome::Finished);
    assert_eq!((passed.received, passed.sent), (8, 13));
    assert_eq!(counters.bytes(), (8, 13));
}

#[tokio::test]
async fn rest_of_initial_data_comes_first() {
    let (mut client, mut from_client) = pair().await;
    let (mut to_backend, mut backend) = pair().await;
    client.write_all(b" and more").await.expect("the data is written");
    client.shutdown().await.expect("the end of the connection");
    let first = InitialData {
        bytes: b"question"[..].into(),
        sent: 3,
    };
    let counters = Arc::new(PortCounters::default());
    let counted = counters.clone();
    let relaying = tokio::spawn(async move {
        let mut passed = RelayedBytes::default();
        let relaying = relay(
            &mut from_client,
            &mut to_backend,
            first,
            LONG,
            &counted,
            &mut passed,
        );
        (relaying.await, passed)
    });
    let mut received = String::new();
    backend
        .read_to_string(&mut received)
        .await
        .expect("data until the end");
    assert_eq!(received, "stion and more");
    drop(backend);
    let (outcome, passed) = relaying.await.expect("the end of the task");
    assert_eq!(outcome, RelayOutcome::Finished);
    assert_eq!(passed.received, 17, "what was taken before among them");
    assert_eq!(counters.bytes(), (17, 0));
}

#[tokio::test]
async fn half_close_with_data_leaves_the_other_direction_open() {
    let (mut client, mut backend, task, counters) = joined(LONG).await;
    backend
        .write_all(b"all there is to say")
        .await
        .expect("the data is written");
    backend.shutdown().await.expect("the end of the connection");
    let mut payload = String::new();
    client
        .read_to_string(&mut payload)
        .await
        .expect("data until the end");
    assert_eq!(payload, "all there is to say");
    client.write_all(b"but").await.expect("the data is written");
    let mut more = [0; 3];
    backend.read_exact(&mut more).await.expect("received data");
    assert_eq!(&more, b"but");
    drop(client);
    assert_eq!(backend.read(&mut more).await.expect("data until the end"), 0);
    assert_eq!(task.await.expect("the end of the task").0, RelayOutcome::Finished);
    assert_eq!(counters.bytes(), (3, 19));
}

#[tokio::test]
async fn blocked_last_bytes_precede_the_end() {
    const LITTLE_ROOM_BYTES: usize = 4 << 10;
    let (mut client, mut from_client) = pair().await;
    let (mut to_backend, mut backend) = pair().await;
    let room = socket2::SockRef::from(&from_client).set_send_buffer_size(LITTLE_ROOM_BYTES);
    room.expect("little room to send");
    let room = socket2::SockRef::from(&client).set_recv_buffer_size(LITTLE_ROOM_BYTES);
    room.expect("little room to receive");
    let payload: Vec<u8> = (0..48 << 10).map(|number| (number % 251) as u8).collect();
    backend.write_all(&payload).await.expect("the data is written");
    backend.shutdown().await.expect("the end of the connection");
    let relaying = tokio::spawn(async move {
        let (counters, mut passed) = (PortCounters::default(), RelayedBytes::default());
        let first = InitialData::default();
        relay(
            &mut from_client,
            &mut to_backend,
            first,
            LONG,
            &counters,
            &mut passed,
        )
        .await
    });
    let mut received = Vec::new();
    client
        .read_to_end(&mut received)
        .await
        .expect("data until the end");
    assert!(
        received == payload,
        "{} of {} bytes",
        received.len(),
        payload.len()
    );
    drop(client);
    assert_eq!(
        relaying.await.expect("the end of the task"),
        RelayOutcome::Finished
    );
}

#[tokio::test]
async fn long_streams_arrive_complete_by_copy_and_splice() {
    let (client, backend, task, _) = joined(LONG).await;
    let (mut client_reads, mut client_writes) = client.into_split();
    let (mut backend_reads, mut backend_writes) = backend.into_split();
    // A long write, then many short ones: first through the pipe, and then without it again.
    let mut payload: Vec<Vec<u8>> = vec![(0..8 << 20).map(|number| (number % 251) as u8).collect()];
    payload.extend((0..200_u8).map(|number| vec![number; 10]));
    payload.push(vec![7; 1 << 20]);
    let expected = payload.concat();
    let sent = payload.clone();
    let writer = tokio::spawn(async move {
        for word in sent {
            client_writes.write_all(&word).await.expect("the data is written");
            tokio::task::yield_now().await;
        }
    });
    let echo = tokio::spawn(async move {
        tokio::io::copy(&mut backend_reads, &mut backend_writes)
            .await
            .expect("an echo");
    });
    let mut received = Vec::new();
    client_reads
        .read_to_end(&mut received)
        .await
        .expect("data until the end");
    assert!(
        received == expected,
        "{} of {} bytes",
        received.len(),
        expected.len()
    );
    writer.await.expect("the data is written");
    echo.await.expect("an echo");
    assert_eq!(task.await.expect("the end of the task").0, RelayOutcome::Finished);
}

#[tokio::test]
async fn reset_of_one_side_resets_the_other() {
    let (mut client, mut backend, task, _) = joined(LONG).await;
    client.abort_on_drop();
    drop(client);
    let error = backend.read_u8().await.expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(task.await.expect("the end of the task").0, RelayOutcome::Reset);
}

#[tokio::test]
async fn idle_timeout_closes_both_sides() {
    let (mut client, _backend, task, _) = joined(Duration::from_millis(20)).await;
    assert_eq!(task.await.expect("the end of the task").0, RelayOutcome::Idle);
    assert!(client.read_u8().await.is_err());
}
