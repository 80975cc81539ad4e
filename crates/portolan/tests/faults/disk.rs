//! Full disks: writes fail with a reason and reads continue, until space is freed. Unusable disks and data
//! are reported in one line at the start.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use client::{Client, JSON};
use http::Method;
use rustix::mount::{MountFlags, mount, mount_remount};
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore};

use crate::client_of;
use crate::support::Api;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Size of the disk: the files of the server and some objects.
const DISK: &std::ffi::CStr = c"size=6m";
/// Sizes of objects that fill the disk, in order: small objects use the rest that a large one leaves.
const OBJECT_BYTES: [usize; 3] = [100_000, 10_000, 1_000];
/// Objects of one size at most; more than the disk can hold.
const OBJECTS_MAX: usize = 200;

#[test]
fn full_disk_rejects_writes_until_space_is_freed() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        let log = Path::new(testbed::RUN_DIRECTORY).join("log");
        let api = Api::start_logging(tempfile::tempdir_in(&disk).expect("a directory"), &log);
        let ballast = disk.join("ballast");
        std::fs::write(&ballast, vec![0; 1 << 20]).expect("a ballast file");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let client = client_of(&api);
            let mut written = 0;
            for bytes in OBJECT_BYTES {
                written += fill(&client, bytes).await;
            }
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"type": "NodePort", "clusterIP": "10.96.7.7", "ports": [{"port": 80, "nodePort": 30007}]},
            });
            let services = "/api/v1/namespaces/default/services";
            let rejected = client.request(Method::POST, services, JSON, Some(&service)).await;
            let rejected = rejected.expect_err("a full disk");
            assert_eq!(rejected.code(), Some(503));
            assert!(rejected.to_string().contains("free space on its disk"), "{rejected}");
            let ready = client.send(Method::GET, "/readyz/etcd-writes", JSON, Default::default()).await;
            let ready = ready.expect_err("a server that cannot write").to_string();
            assert!(ready.contains("free space on its disk"), "{ready}");
            let live = client.send(Method::GET, "/livez", JSON, Default::default()).await;
            live.expect("a server that reads");
            let list: Value = client.get(CONFIG_MAPS).await.expect("a list on a full disk");
            // Each namespace has one ConfigMap from the start.
            assert_eq!(list["items"].as_array().map(Vec::len), Some(written + 1));
            std::fs::remove_file(&ballast).expect("a removed ballast file");
            // The rejected request has allocated neither the address nor the port.
            let created = client.request(Method::POST, services, JSON, Some(&service)).await;
            created.expect("a Service on a disk with free space");
            let ready = client.send(Method::GET, "/readyz", JSON, Default::default()).await;
            ready.expect("a server that writes again");
        });
        // The log has one line for each series of failed writes, not for each write.
        let log = std::fs::read_to_string(&log).expect("a log");
        let lines = log
            .lines()
            .filter(|line| line.contains("store write failed; free space on its disk"))
            .count();
        assert!((1..=OBJECT_BYTES.len() + 1).contains(&lines), "{log}");
        assert_eq!(log.lines().count(), lines, "{log}");
    });
}

#[test]
fn full_disk_is_reported_at_the_start() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        let ballast = disk.join("ballast");
        let mut file = std::fs::File::create(&ballast).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
        // A deleted file frees its space only after it is closed.
        drop(file);
        let error = start_error(&disk);
        assert!(
            error.contains("free space") || error.contains("is full or failing"),
            "{error}"
        );
        std::fs::remove_file(&ballast).expect("a removed ballast file");
        // The incomplete store of the failed start opens.
        drop(SqliteStore::open(disk.join("store"), SqliteOptions::default()).expect("a store"));
    });
}

#[test]
fn read_only_disk_is_reported_at_the_start() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        drop(SqliteStore::open(disk.join("store"), SqliteOptions::default()).expect("a store"));
        mount_remount(&disk, MountFlags::RDONLY, "").expect("a read-only file system");
        let error = start_error(&disk);
        assert!(
            error.contains("Read-only file system") && error.contains("portolan.lock"),
            "{error}"
        );
        assert!(error.contains("mount its disk read-write"), "{error}");
    });
}

#[test]
fn unusable_data_are_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let store =
        || SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).expect("a store");
    let open = store();
    assert!(start_error(directory.path()).contains("in use by another process"));
    drop(open);
    let file = directory.path().join("store").join(store::DATABASE_FILE);
    let valid = std::fs::read(&file).expect("the database");
    // The schema version is the user version of SQLite, at offset 60 of the file.
    let newer = [&valid[..60], &999_u32.to_be_bytes(), &valid[64..]].concat();
    for (content, expected) in [
        (newer, "newer version"),
        (
            b"no database at all, but long enough".repeat(300),
            "restore it from a backup",
        ),
        (valid[..valid.len() / 2].to_vec(), "restore it from a backup"),
    ] {
        std::fs::write(&file, content).expect("a damaged database");
        let line = start_error(directory.path());
        assert!(
            line.contains(expected) && line.contains(store::DATABASE_FILE),
            "{line}"
        );
    }
    std::fs::write(&file, valid).expect("a restored database");
    drop(store());
}

/// Starts a server that must exit at once, and returns the only line of its standard error.
fn start_error(data_directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["apiserver", "--listen=127.0.0.1:0", "--log-level=off"])
        .arg(format!("--data-dir={}", data_directory.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Creates objects of one size until the disk is full, and returns their number.
async fn fill(client: &Client, bytes: usize) -> usize {
    for number in 0..OBJECTS_MAX {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c-{bytes}-{number}")},
            "data": {"k": "x".repeat(bytes)},
        });
        let written = client
            .request(Method::POST, CONFIG_MAPS, JSON, Some(&object))
            .await;
        if let Err(error) = written {
            assert_eq!(error.code(), Some(503), "{error}");
            assert!(error.to_string().contains("try again later"), "{error}");
            return number;
        }
    }
    panic!("a disk of {DISK:?} holds {OBJECTS_MAX} objects of {bytes} bytes");
}
