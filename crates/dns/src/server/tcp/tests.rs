use super::*;
use crate::forward::Forwarder;
use crate::records::{Index, Settings};
use crate::server::waiting_responses::WaitingResponses;
use crate::wire::Name;

/// Header and question of `a.cluster.local`, after their length.
const QUERY: &[u8] = b"\x00\x21\
    \x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\
    \x01a\x07cluster\x05local\x00\x00\x01\x00\x01";

#[tokio::test]
async fn connection_ends_when_its_client_reads_no_responses() {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    index.set_synced();
    let connections = Connections::with_waiting(WaitingResponses::with_limit(1_000));
    let acceptor = Acceptor {
        responder: Arc::new(Responder::new(Arc::new(index), Forwarder::to(Vec::new()))),
        connections,
        tls: None,
    };
    let peer = Peer {
        address: IpAddr::from([192, 0, 2, 1]),
        transport: Transport::Tcp,
    };
    let (responses, mut queue) = mpsc::channel(PENDING_MAX);
    let queries = QUERY.repeat(PENDING_MAX);
    let read = read_queries(queries.as_slice(), peer, &acceptor, responses).await;
    assert!(read.is_err());
    let mut waiting = Vec::new();
    while let Some(response) = queue.recv().await {
        waiting.push(response);
    }
    let bytes: usize = waiting.iter().map(|response| response.message.len()).sum();
    assert!((1..=500).contains(&bytes), "{bytes}");
}
