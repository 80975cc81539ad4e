use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutOptions,
    PutResult,
};

use super::*;
use crate::settings::{LogDestination, LogFormat};

/// Store whose first writes fail.
#[derive(Debug)]
struct Flaky {
    inner: InMemory,
    failures_left: AtomicU32,
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flaky")
    }
}

impl Flaky {
    fn new(failures: u32) -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            failures_left: AtomicU32::new(failures),
        })
    }

    async fn files(&self) -> Vec<String> {
        let list: Vec<ObjectMeta> = self.inner.list(None).try_collect().await.unwrap();
        let mut files = Vec::new();
        for meta in list {
            let bytes = self
                .inner
                .get(&meta.location)
                .await
                .unwrap()
                .bytes()
                .await
                .unwrap();
            files.push(String::from_utf8(bytes.to_vec()).unwrap());
        }
        files
    }
}

#[async_trait::async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let failed = self
            .failures_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match failed {
            Ok(_) => Err(object_store::Error::Generic {
                store: "Flaky",
                source: "not yet".into(),
            }),
            Err(_) => self.inner.put_opts(at, payload, options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(at, options).await
    }

    async fn delete(&self, at: &Path) -> object_store::Result<()> {
        self.inner.delete(at).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.inner.copy(from, to).await
    }

    async fn copy_if_not_exists(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.inner.copy_if_not_exists(from, to).await
    }
}

/// Bytes of the memory for the lines of a test.
const LINES_BYTES: usize = 16;

fn writer(store: Arc<Flaky>, interval: Duration) -> Writer {
    let memory = Memory::default();
    assert!(memory.add(LINES_BYTES));
    Writer {
        service: ServiceName {
            namespace: "a".into(),
            name: "b".into(),
        },
        host: "host".into(),
        settings: AccessLog {
            destination: LogDestination::Directory,
            prefix: "".into(),
            interval,
            format: LogFormat::Common,
        },
        store,
        quota: None,
        space_changed: Arc::default(),
        retries: RetryPolicy {
            count: 3,
            first_pause: Duration::from_millis(1),
        },
        memory: Arc::new(memory),
        counts: Arc::default(),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn writes_the_last_batch_when_the_queue_closes() {
    let store = Flaky::new(0);
    let (_finish, finishing) = watch::channel(false);
    let (queue, lines) = mpsc::channel(10);
    for line in ["a\n", "b\n"] {
        queue.send(line.to_owned()).await.unwrap();
    }
    drop(queue);
    writer(store.clone(), HOUR).run(lines, finishing).await;
    assert_eq!(store.files().await, ["a\nb\n"]);
}

#[tokio::test]
async fn writes_the_last_batch_on_finish() {
    let store = Flaky::new(0);
    let (finish, finishing) = watch::channel(true);
    let (queue, lines) = mpsc::channel(10);
    queue.send("a\n".to_owned()).await.unwrap();
    writer(store.clone(), HOUR).run(lines, finishing).await;
    assert_eq!(store.files().await, ["a\n"]);
    assert!(queue.is_closed());
    drop(finish);
}

#[tokio::test]
async fn writes_a_batch_at_its_interval() {
    let store = Flaky::new(0);
    let (_finish, finishing) = watch::channel(false);
    let (queue, lines) = mpsc::channel(10);
    let writer = writer(store.clone(), Duration::from_millis(1));
    let counts = writer.counts.clone();
    let running = tokio::spawn(writer.run(lines, finishing));
    for files in 1..=2 {
        queue.send(format!("{files}\n")).await.unwrap();
        while counts.written_files.load(Ordering::Relaxed) < files {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    drop(queue);
    running.await.unwrap();
    let mut files = store.files().await;
    files.sort();
    assert_eq!(files, ["1\n", "2\n"]);
}

#[tokio::test]
async fn retries_a_failing_destination_a_bounded_number_of_times() {
    for (failures, files, lost) in [(2, 1, 0), (3, 0, 2)] {
        let store = Flaky::new(failures);
        let (_finish, finishing) = watch::channel(false);
        let (queue, lines) = mpsc::channel(10);
        for line in ["a\n", "b\n"] {
            queue.send(line.to_owned()).await.unwrap();
        }
        drop(queue);
        let writer = writer(store.clone(), HOUR);
        let counts = writer.counts.clone();
        writer.run(lines, finishing).await;
        assert_eq!(store.files().await.len(), files);
        assert_eq!(counts.lost_lines.load(Ordering::Relaxed), lost);
    }
}

/// Lines for an hour take no memory from other Services of the namespace.
#[tokio::test]
async fn writes_early_when_memory_becomes_scarce() {
    let store = Flaky::new(0);
    let (_finish, finishing) = watch::channel(false);
    let (queue, lines) = mpsc::channel(10);
    let writer = writer(store.clone(), HOUR);
    let (memory, counts) = (writer.memory.clone(), writer.counts.clone());
    let running = tokio::spawn(writer.run(lines, finishing));
    queue.send("a\n".to_owned()).await.unwrap();
    while queue.capacity() < queue.max_capacity() {
        tokio::task::yield_now().await;
    }
    // Lines of another Service.
    assert!(memory.add(32 << 20));
    while counts.written_files.load(Ordering::Relaxed) < 1 {
        tokio::task::yield_now().await;
    }
    drop(queue);
    running.await.unwrap();
    assert_eq!(store.files().await, ["a\n"]);
    assert!(memory.add((32 << 20) - LINES_BYTES + "a\n".len()));
    assert!(!memory.add(1));
}
