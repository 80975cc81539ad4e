//! Faults of etcd: outage, restore of an old state, compaction, keys of others; and several stores on one etcd.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use store::{
    CommitError, EtcdAddress, EtcdSettings, EtcdStore, Event, Expectation, HistoryLimits, Key, Revision,
    Store, StoreError, Transaction, Value, Watch, Write,
};
use tempfile::TempDir;
use testbed::EtcdServer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Timeout of a test that hangs, far above the duration of each.
const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Starts an etcd of the test's own; `None`, with a message, if the host has no etcd.
fn etcd(test: &str) -> Option<(EtcdServer, TempDir)> {
    if !EtcdServer::is_installed() {
        println!("skipped: {test}: etcd is not installed");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    Some((EtcdServer::start(directory.path()).expect("etcd"), directory))
}

fn settings(url: String) -> EtcdSettings {
    EtcdSettings {
        address: EtcdAddress {
            servers: vec![url],
            ca_file: None,
            identity_files: None,
            prefix: "/portolan".to_owned(),
        },
        history: HistoryLimits::default(),
        compaction_interval: Duration::ZERO,
        transformation: store::Transformation::default(),
    }
}

async fn open(url: String) -> Arc<EtcdStore> {
    Arc::new(EtcdStore::open(settings(url)).await.expect("a store"))
}

fn put(key: &str, text: &str) -> Write {
    let value = Value {
        bytes: Bytes::copy_from_slice(text.as_bytes()),
        revision_at: None,
    };
    Write::Put(key.into(), value)
}

fn writes(writes: Vec<Write>) -> Transaction {
    Transaction {
        expectations: Vec::new(),
        writes,
    }
}

async fn commit(store: &EtcdStore, key: &str, text: &str) -> Revision {
    store
        .commit(writes(vec![put(key, text)]))
        .await
        .expect("a commit")
}

/// Repeats a commit until the store can write.
async fn commit_at_last(store: &EtcdStore, key: &str, text: &str) -> Revision {
    let trying = async {
        loop {
            match store.commit(writes(vec![put(key, text)])).await {
                Ok(revision) => return revision,
                Err(CommitError::Store(StoreError::Unavailable { .. })) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(HANG_LIMIT, trying)
        .await
        .expect("a commit at last")
}

async fn next(watch: &mut Watch) -> Arc<Event> {
    let next = tokio::time::timeout(HANG_LIMIT, watch.next()).await;
    next.expect("in time").expect("an event")
}

fn text(store: &EtcdStore, key: &str) -> Option<String> {
    let value = store.index().get(key)?.value;
    Some(String::from_utf8_lossy(&value).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_continue_while_etcd_is_away() {
    let Some((mut etcd, _directory)) = etcd("reads_continue_while_etcd_is_away") else {
        return;
    };
    let store = open(etcd.url()).await;
    let before = commit(&store, "/things/a", "1").await;
    let mut watch = store.index().watch("/things/", before).expect("a watch");
    etcd.kill();
    let refused = store.commit(writes(vec![put("/things/b", "1")])).await;
    assert!(
        matches!(refused, Err(CommitError::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
    let refused = store.read_barrier().await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(text(&store, "/things/a").as_deref(), Some("1"));
    assert!(watch.try_next().expect("the watch goes on").is_none());
    etcd.run().expect("etcd again");
    let after = commit_at_last(&store, "/things/c", "1").await;
    assert!(after > before);
    assert_eq!(store.read_barrier().await.expect("a barrier"), after);
    assert_eq!(next(&mut watch).await.revision, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_read_sees_writes_of_other_stores() {
    let Some((etcd, _directory)) = etcd("consistent_read_sees_writes_of_other_stores") else {
        return;
    };
    let (one, other) = (open(etcd.url()).await, open(etcd.url()).await);
    for round in 0..200 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        let written = commit(writer, "/things/a", &round.to_string()).await;
        assert!(reader.read_barrier().await.expect("a barrier") >= written);
        assert_eq!(text(reader, "/things/a"), Some(round.to_string()));
    }
    let before = other.index().revision();
    let increment = |store: Arc<EtcdStore>| async move {
        for _ in 0..50 {
            while !try_increment(&store).await {}
        }
    };
    let mut tasks = JoinSet::new();
    for store in [&one, &other, &one, &other] {
        tasks.spawn(increment(store.clone()));
    }
    let mut watch = other.index().watch("/counters/", before).expect("a watch");
    let mut seen = Vec::new();
    while seen.len() < 200 {
        seen.push(next(&mut watch).await.revision);
    }
    assert!(
        seen.is_sorted_by(|earlier, later| earlier < later),
        "one revision for each"
    );
    tasks.join_all().await;
    drop(one);
    assert_eq!(text(&other, "/counters/a").as_deref(), Some("200"));
    commit(&other, "/things/a", "goes on").await;
}

async fn try_increment(store: &EtcdStore) -> bool {
    let entry = store.index().get("/counters/a");
    let count: u32 = entry.as_ref().map_or(0, |entry| {
        std::str::from_utf8(&entry.value)
            .ok()
            .and_then(|text| text.parse().ok())
            .expect("a number")
    });
    let expectation = entry.map_or(Expectation::Absent, |entry| Expectation::At(entry.modified));
    let transaction = Transaction {
        expectations: vec![(Key::from("/counters/a"), expectation)],
        writes: vec![put("/counters/a", &(count + 1).to_string())],
    };
    match store.commit(transaction).await {
        Ok(_) => true,
        Err(CommitError::Conflict { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_etcd_is_detected_and_revisions_grow() {
    let Some((mut etcd, directory)) = etcd("restored_etcd_is_detected_and_revisions_grow") else {
        return;
    };
    let store = open(etcd.url()).await;
    commit(&store, "/things/a", "1").await;
    etcd.kill();
    let backup = directory.path().join("backup");
    copy_tree(&etcd.data_directory(), &backup);
    etcd.run().expect("etcd again");
    let mut newest = Revision(0);
    for round in 0..10 {
        newest = commit_at_last(&store, "/things/b", &round.to_string()).await;
    }
    etcd.kill();
    std::fs::remove_dir_all(etcd.data_directory()).expect("its data are lost");
    copy_tree(&backup, &etcd.data_directory());
    etcd.run().expect("etcd with older data");
    let lost = tokio::time::timeout(HANG_LIMIT, store.lost())
        .await
        .expect("the change is detected");
    assert!(lost.to_string().contains("older snapshot"), "{lost}");
    let refused = store.commit(writes(vec![put("/things/c", "1")])).await;
    assert!(matches!(refused, Err(CommitError::Store(_))), "{refused:?}");
    assert!(store.read_barrier().await.is_err());
    drop(store);

    let store = open(etcd.url()).await;
    assert_eq!(text(&store, "/things/a").as_deref(), Some("1"));
    assert_eq!(text(&store, "/things/b"), None);
    assert!(store.index().revision() > newest || commit(&store, "/things/c", "1").await > newest);
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a file type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

/// Relays connections to etcd until it is cut.
struct Relay {
    url: String,
    accepting: JoinSet<()>,
}

impl Relay {
    async fn start(to: u16, at: Option<u16>) -> (Relay, u16) {
        let listener = TcpListener::bind(("127.0.0.1", at.unwrap_or(0)))
            .await
            .expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await {
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    }
                });
            }
        });
        let url = format!("http://127.0.0.1:{port}");
        (Relay { url, accepting }, port)
    }

    async fn cut(mut self) {
        self.accepting.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_store_resumes_or_reloads() {
    let Some((etcd, _directory)) = etcd("disconnected_store_resumes_or_reloads") else {
        return;
    };
    let near = open(etcd.url()).await;
    let (mut relay, port) = Relay::start(etcd.client_port(), None).await;
    let far = open(relay.url.clone()).await;
    commit(&near, "/things/gone", "1").await;
    for is_compacted in [false, true] {
        let start = commit(&near, "/things/old", "1").await;
        far.read_barrier().await.expect("a barrier");
        let mut watch = far.index().watch("/things/", start).expect("a watch");
        relay.cut().await;
        for round in 0..10 {
            commit(&near, "/things/changed", &format!("{is_compacted} {round}")).await;
        }
        let delete = Write::Delete {
            key: "/things/gone".into(),
            last: None,
        };
        let newest = near.commit(writes(vec![delete])).await.expect("a deletion");
        if is_compacted {
            near.compact(newest).await.expect("a compaction");
        }
        relay = Relay::start(etcd.client_port(), Some(port)).await.0;
        commit_at_last(&far, "/things/new", "1").await;
        assert_eq!(text(&far, "/things/gone"), None);
        assert_eq!(text(&far, "/things/changed"), Some(format!("{is_compacted} 9")));
        assert_eq!(text(&far, "/things/old").as_deref(), Some("1"));
        if is_compacted {
            let cut = watch.next().await;
            assert!(matches!(cut, Err(StoreError::Lagged { .. })), "{cut:?}");
            let refused = far.index().watch("/things/", start).err();
            assert!(
                matches!(refused, Some(StoreError::Compacted { .. })),
                "{refused:?}"
            );
        } else {
            for _ in 0..10 {
                assert_eq!(&*next(&mut watch).await.key, "/things/changed");
            }
            assert_eq!(next(&mut watch).await.revision, newest);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_prefix_of_another_program_or_newer_version() {
    let Some((etcd, _directory)) = etcd("rejects_prefix_of_another_program_or_newer_version") else {
        return;
    };
    if Command::new("etcdctl").arg("version").output().is_err() {
        println!("skipped: rejects_prefix_of_another_program_or_newer_version: etcdctl is not installed");
        return;
    }
    let write = |key: &str, value: &str| {
        let mut etcdctl = Command::new("etcdctl");
        etcdctl
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", etcd.url()));
        let output = etcdctl.args(["put", key, value]).output().expect("etcdctl");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let refusal = || async {
        let refused = EtcdStore::open(settings(etcd.url()))
            .await
            .err()
            .expect("a refusal");
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
        refused.to_string()
    };
    write("/portolan/pods/default/a", "k8s");
    assert!(refusal().await.contains("another program"));
    write("/portolan/.layout", "portolan-store 99\n");
    let text = refusal().await;
    assert!(
        text.contains("layout 99") && text.contains("newer version"),
        "{text}"
    );
    write(
        "/portolan/.layout",
        "portolan-store 1\nrevision-offset 0\nbeing-copied\n",
    );
    assert!(refusal().await.contains("copy"));

    // A key written by hand alongside the store's is reported and skipped.
    let mut others = settings(etcd.url());
    others.address.prefix = "/elsewhere".to_owned();
    let store = EtcdStore::open(others).await.expect("a store of its own");
    write("/elsewhere/things/by-hand", "no value of ours");
    commit(&store, "/things/a", "1").await;
    assert_eq!(text_of(&store, "/things/"), ["/things/a"]);
}

fn text_of(store: &EtcdStore, prefix: &str) -> Vec<String> {
    let listing = store.index().list(prefix, None, None, None).expect("a list");
    listing
        .entries
        .iter()
        .map(|entry| entry.key.to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_by_one_of_several() {
    let Some((etcd, _directory)) = etcd("history_is_compacted_by_one_of_several") else {
        return;
    };
    let mut quick = settings(etcd.url());
    quick.compaction_interval = Duration::from_millis(50);
    let (one, other) = (EtcdStore::open(quick.clone()).await, EtcdStore::open(quick).await);
    let (one, other) = (one.expect("a store"), other.expect("a store"));
    let start = commit(&one, "/things/a", "0").await;
    // After compaction, etcd itself (here by etcdctl) rejects a watch from the past.
    let compacted = async {
        loop {
            commit(&other, "/things/a", "x").await;
            let mut etcdctl = Command::new("etcdctl");
            etcdctl
                .env("ETCDCTL_API", "3")
                .arg(format!("--endpoints={}", etcd.url()));
            let Ok(output) = etcdctl
                .args(["get", "/portolan/things/a", &format!("--rev={start}")])
                .output()
            else {
                println!("skipped: history_is_compacted_by_one_of_several: etcdctl is not installed");
                return;
            };
            if String::from_utf8_lossy(&output.stderr).contains("compacted") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG_LIMIT, compacted)
        .await
        .expect("a compaction");
    assert_eq!(
        one.index().oldest(),
        other.index().oldest(),
        "the history in memory is another matter"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_by_tls_with_certificates() {
    if !EtcdServer::is_installed() {
        println!("skipped: etcd_is_reached_by_tls_with_certificates: etcd is not installed");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    std::fs::write(file("ca.crt"), authority.pem()).expect("a file");
    for name in ["server", "client"] {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        let certificate = certificate.signed_by(&key, &authority).expect("a certificate");
        std::fs::write(file(&format!("{name}.crt")), certificate.pem()).expect("a file");
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }
    let flag = |flag: &str, name: &str| format!("--{flag}={}", file(name).display());
    let flags = [
        flag("cert-file", "server.crt"),
        flag("key-file", "server.key"),
        flag("trusted-ca-file", "ca.crt"),
        "--client-cert-auth".to_owned(),
    ];
    let etcd = EtcdServer::start_with(directory.path(), &flags).expect("etcd");
    let url = format!("https://127.0.0.1:{}", etcd.client_port());
    let without = EtcdStore::open(settings(url.clone()))
        .await
        .err()
        .expect("a refusal");
    assert!(without.to_string().contains("of the CA"), "{without}");
    let mut with = settings(url);
    with.address.ca_file = Some(file("ca.crt"));
    with.address.identity_files = Some((file("client.crt"), file("client.key")));
    let store = EtcdStore::open(with).await.expect("a store");
    commit(&store, "/things/a", "1").await;
}
