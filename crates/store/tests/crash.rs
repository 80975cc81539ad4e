//! The embedded engine under kill -9 and on a full disk. Each test runs its own binary as a child process that
//! writes; an environment variable names the directory.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::select_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{
    CommitError, Expectation, Key, SqliteOptions, SqliteStore, Store, StoreError, Transaction, Value, Write,
};

/// Environment variable of the child: the data directory.
const CHILD_DIRECTORY: &str = "PORTOLAN_STORE_TEST_DIRECTORY";

const KILLS: usize = 10;
/// Maximum number of acknowledgements before the kill: enough for checkpoints of the log.
const MOMENTS: u64 = 4_000;

const COMMITTERS: usize = 8;

/// Number of entries that a committer keeps; it deletes older ones.
const ENTRIES_KEPT: u64 = 3;

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, SqliteOptions::default()).expect("a store")
}

fn put(key: String, bytes: impl Into<Bytes>) -> Write {
    Write::Put(
        key.into(),
        Value {
            bytes: bytes.into(),
            revision_at: None,
        },
    )
}

fn number(store: &SqliteStore, key: &str) -> Option<u64> {
    let value = store.index().get(key)?.value;
    std::str::from_utf8(&value).ok()?.parse().ok()
}

#[test]
fn acknowledged_writes_survive_kill_nine() {
    if let Some(directory) = env::var_os(CHILD_DIRECTORY) {
        commit_until_killed(directory.as_ref());
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged = [(0, 0); COMMITTERS];
    for _ in 0..KILLS {
        let acknowledgements = 1 + RandomState::new().hash_one("moment") % MOMENTS;
        run_and_kill(directory.path(), acknowledgements, &mut acknowledged);
        let store = open(directory.path());
        for (committer, (count, revision)) in acknowledged.iter().enumerate() {
            check_committer(&store, committer, *count, *revision);
        }
    }
    assert!(
        acknowledged.iter().any(|(count, _)| *count > 0),
        "no write was acknowledged"
    );
}

/// Starts a child, kills it after `acknowledgements` lines of output, and records all acknowledged writes.
fn run_and_kill(directory: &Path, acknowledgements: u64, acknowledged: &mut [(u64, u64); COMMITTERS]) {
    let mut child = Command::new(env::current_exe().expect("this binary"))
        .args(["acknowledged_writes_survive_kill_nine", "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut received = 0;
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        let line = line.expect("a line");
        // The line may start with output of the test harness.
        let Some((_, numbers)) = line.split_once("acknowledged ") else {
            continue;
        };
        let numbers: Vec<u64> = numbers
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let [committer, count, revision] = numbers[..] else {
            panic!("{line}")
        };
        acknowledged[committer as usize] = (count, revision);
        received += 1;
        if received == acknowledgements {
            child.kill().expect("kill -9");
        }
    }
    let status = child.wait().expect("an end");
    assert!(
        received >= acknowledgements,
        "the child ended by itself after {received}: {status}"
    );
}

/// Commits without end: each committer increments its counter and adds an entry with the number, in one transaction.
fn commit_until_killed(directory: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    let store = Arc::new(open(directory));
    let commit_forever = |committer: usize| {
        let store = store.clone();
        async move {
            loop {
                let counter = format!("/counters/{committer}");
                let before = store.index().get(&counter);
                let expectation = before.map_or(Expectation::Absent, |entry| Expectation::At(entry.modified));
                let count = number(&store, &counter).unwrap_or(0) + 1;
                let old = format!("/entries/{committer}/{}", count.saturating_sub(ENTRIES_KEPT));
                let transaction = Transaction {
                    expectations: vec![(Key::from(&*counter), expectation)],
                    writes: vec![
                        put(counter, count.to_string()),
                        put(format!("/entries/{committer}/{count}"), count.to_string()),
                        Write::Delete {
                            key: old.into(),
                            last: None,
                        },
                    ],
                };
                let revision = store.commit(transaction).await.expect("a commit");
                println!("acknowledged {committer} {count} {revision}");
            }
        }
    };
    let tasks: Vec<_> = (0..COMMITTERS)
        .map(|committer| runtime.spawn(commit_forever(committer)))
        .collect();
    let (first_to_end, ..) = runtime.block_on(select_all(tasks));
    panic!(
        "committers do not end; this one panicked: {}",
        first_to_end.is_err()
    );
}

/// Checks a committer: at most one commit was in progress, and it happened completely or not at all.
fn check_committer(store: &SqliteStore, committer: usize, count: u64, revision: u64) {
    let counter = format!("/counters/{committer}");
    let found = number(store, &counter).unwrap_or(0);
    assert!(
        found == count || found == count + 1,
        "{committer}: {count} was acknowledged, {found} found"
    );
    let modified = store.index().get(&counter).map_or(0, |entry| entry.modified.0);
    assert!(if found == count {
        modified == revision
    } else {
        modified > revision
    });
    assert!(store.index().revision().0 >= modified);
    let prefix = format!("/entries/{committer}/");
    let entries = store
        .index()
        .list(&prefix, None, None, None)
        .expect("a list")
        .entries;
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| number(store, &entry.key))
        .collect();
    numbers.sort_unstable();
    let expected: Vec<u64> = (found.saturating_sub(ENTRIES_KEPT - 1).max(1)..=found).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn full_disk_rejects_writes_until_space_is_free() {
    if let Some(directory) = env::var_os(CHILD_DIRECTORY) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        return runtime.block_on(fill_and_recover(directory.as_ref()));
    }
    let directory = tempfile::tempdir().expect("a directory");
    // A file over the size limit fails like a full disk if SIGXFSZ is ignored.
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(env::current_exe().expect("this binary"))
        .args([
            "full_disk_rejects_writes_until_space_is_free",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD_DIRECTORY, directory.path())
        .output()
        .expect("a child");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let store = open(directory.path());
    assert_eq!(
        number(&store, "/state/after"),
        Some(1),
        "the child came to its end"
    );
}

/// Limits the file size of this process.
fn limit_file_bytes(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: bytes.or(maximum),
            maximum,
        },
    )
    .expect("a limit");
}

async fn fill_and_recover(directory: &Path) {
    let store = open(directory);
    let commit = async |writes| {
        store
            .commit(Transaction {
                expectations: Vec::new(),
                writes,
            })
            .await
    };
    let large = |number: u64| vec![put(format!("/large/{number}"), vec![b'x'; 8_192])];
    let mut watch = store
        .index()
        .watch("/large/", store.index().revision())
        .expect("a watch");

    limit_file_bytes(Some(512 << 10));
    let mut acknowledged = 0;
    let refusal = loop {
        match commit(large(acknowledged)).await {
            Ok(_) => acknowledged += 1,
            Err(refusal) => break refusal,
        }
        assert!(acknowledged < 1_000, "the limit has no effect");
    };
    assert!(
        matches!(refusal, CommitError::Store(StoreError::Unavailable { .. })),
        "{refusal:?}"
    );
    assert!(acknowledged > 0);
    let revision = store.index().revision();
    for _ in 0..5 {
        let refusal = commit(large(acknowledged)).await;
        assert!(
            matches!(refusal, Err(CommitError::Store(StoreError::Unavailable { .. }))),
            "{refusal:?}"
        );
    }

    let listed = || {
        store
            .index()
            .list("/large/", None, None, None)
            .expect("a list")
            .entries
            .len() as u64
    };
    assert_eq!((listed(), store.index().revision()), (acknowledged, revision));
    for number in 0..acknowledged {
        let event = watch.next().await.expect("an event");
        assert_eq!(*event.key, *format!("/large/{number}"));
    }
    assert!(watch.try_next().expect("no error").is_none());

    limit_file_bytes(None);
    commit(large(acknowledged)).await.expect("there is room again");
    assert_eq!(store.index().revision().0, revision.0 + 1);
    commit(vec![put("/state/after".to_owned(), "1")])
        .await
        .expect("a commit");
    let before = store.index().list("/", None, None, None).expect("a list");
    drop(store);
    assert_eq!(
        open(directory)
            .index()
            .list("/", None, None, None)
            .expect("a list"),
        before
    );
}
