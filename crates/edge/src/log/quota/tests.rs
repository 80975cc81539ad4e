use object_store::PutPayload;
use object_store::memory::InMemory;

use super::super::batch;
use super::*;

const HOST: &str = "node-1";
const KIB: u64 = 1_024;

fn service(name: &str) -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn ample_space(_: &std::path::Path) -> std::io::Result<DiskSpace> {
    Ok(DiskSpace { free: 50, total: 100 })
}

fn scarce_space(_: &std::path::Path) -> std::io::Result<DiskSpace> {
    Ok(DiskSpace { free: 9, total: 100 })
}

fn quota(store: &Arc<InMemory>, probe_space: SpaceProbe) -> Quota {
    let limits = DirectoryLimits {
        bytes_max: 100 * KIB,
        service_bytes_max: 40 * KIB,
        free_percent_min: 10,
    };
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    Quota::new(limits, "/logs".into(), HOST.into(), store, probe_space)
}

/// Returns the name of a Service's file of one second.
fn file(service: &ServiceName, second: i64) -> Path {
    let now = jiff::Timestamp::from_second(1_700_000_000 + second).expect("a time");
    batch::name("logs", service, HOST, now, 7)
}

async fn write(store: &InMemory, file: &Path, bytes: u64) {
    let payload = PutPayload::from(vec![b'x'; usize::try_from(bytes).expect("a size")]);
    store.put(file, payload).await.expect("the data is written");
}

/// Writes a file as a log's writer does.
async fn log(quota: &Quota, store: &InMemory, service: &ServiceName, second: i64, bytes: u64) {
    let file = file(service, second);
    quota.reserve(service, &file, bytes).await.expect("space");
    write(store, &file, bytes).await;
}

async fn seconds_of(store: &InMemory, service: &ServiceName) -> Vec<i64> {
    let files: Vec<ObjectMeta> = store.list(None).try_collect().await.expect("a list");
    let is_there = |second: &i64| files.iter().any(|meta| meta.location == file(service, *second));
    (0..100).filter(is_there).collect()
}

#[tokio::test]
async fn removes_the_oldest_files_of_a_service_beyond_its_quota() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, ample_space);
    let (web, mail) = (service("web"), service("mail"));
    log(&quota, &store, &mail, 0, 10 * KIB).await;
    for second in 1..=6 {
        log(&quota, &store, &web, second, 10 * KIB).await;
    }
    assert_eq!(seconds_of(&store, &web).await, [3, 4, 5, 6]);
    assert_eq!(seconds_of(&store, &mail).await, [0]);
    assert_eq!(quota.counts(), (50 * KIB, vec![(mail, 0), (web, 2)]));
}

#[tokio::test]
async fn removes_files_of_the_largest_service_beyond_the_total_quota() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, ample_space);
    let names = ["a", "b", "c"].map(service);
    log(&quota, &store, &names[0], 0, 20 * KIB).await;
    for second in 1..=4 {
        log(&quota, &store, &names[1], second, 10 * KIB).await;
        log(&quota, &store, &names[2], second, 10 * KIB).await;
    }
    log(&quota, &store, &names[0], 5, 10 * KIB).await;
    assert_eq!(seconds_of(&store, &names[0]).await, [0, 5]);
    assert_eq!(quota.counts().0, 100 * KIB);
}

#[tokio::test]
async fn counts_files_of_earlier_processes_and_keeps_others() {
    let store = Arc::new(InMemory::new());
    let web = service("web");
    for second in 1..=5 {
        write(&store, &file(&web, second), 10 * KIB).await;
    }
    let foreign = Path::from("notes/shop_web_node-2_20200101T000000Z_0000000000000007.log");
    write(&store, &foreign, 10 * KIB).await;
    write(&store, &Path::from("README.log"), 10 * KIB).await;
    let quota = quota(&store, ample_space);
    log(&quota, &store, &web, 6, 10 * KIB).await;
    assert_eq!(seconds_of(&store, &web).await, [3, 4, 5, 6]);
    assert!(store.head(&foreign).await.is_ok() && store.head(&Path::from("README.log")).await.is_ok());
}

#[tokio::test]
async fn writes_nothing_while_the_file_system_is_nearly_full() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, scarce_space);
    let refused = quota.reserve(&service("web"), &file(&service("web"), 1), 1).await;
    let observed = refused.expect_err("no space").to_string();
    assert!(
        observed.contains("file system of /logs: less than 10 % free"),
        "{observed}"
    );
    assert_eq!(quota.counts(), (0, Vec::new()));
}

#[tokio::test]
async fn refuses_a_file_that_is_larger_than_the_quota() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, ample_space);
    let web = service("web");
    log(&quota, &store, &web, 1, KIB).await;
    let refused = quota.reserve(&web, &file(&web, 2), 41 * KIB).await;
    assert!(matches!(refused, Err(ReserveError::Quota { .. })));
    assert_eq!(seconds_of(&store, &web).await, [1]);
}

#[tokio::test]
async fn small_files_count_as_blocks() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, ample_space);
    let web = service("web");
    for second in 1..=30 {
        log(&quota, &store, &web, second, 1).await;
    }
    assert_eq!(seconds_of(&store, &web).await.len(), 10);
}

#[tokio::test]
async fn released_files_are_not_counted() {
    let store = Arc::new(InMemory::new());
    let quota = quota(&store, ample_space);
    let web = service("web");
    quota
        .reserve(&web, &file(&web, 1), 10 * KIB)
        .await
        .expect("space");
    quota.release(&web, &file(&web, 1));
    assert_eq!(quota.counts().0, 0);
}

#[test]
fn reads_the_space_of_a_file_system() {
    let observed = space(std::path::Path::new("/")).expect("a file system");
    assert!(observed.total > 0 && observed.free <= observed.total);
}
