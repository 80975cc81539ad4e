//! A disk without room: writes are refused with a reason, reads go on, and room mends it. Disks and data that a
//! server cannot start on are told in one line.

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
/// Room for the server's own files and some objects.
const DISK: &std::ffi::CStr = c"size=6m";
/// Sizes of what is written until nothing more fits: what one large object leaves, small ones still use.
const OBJECT_BYTES: [usize; 3] = [100_000, 10_000, 1_000];
/// More objects of a size than there is room for.
const OBJECTS_MAX: usize = 200;

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        let log = Path::new(testbed::RUN_DIRECTORY).join("log");
        let api = Api::start_logging(tempfile::tempdir_in(&disk).expect("a directory"), &log);
        let ballast = disk.join("ballast");
        std::fs::write(&ballast, vec![0; 1 << 20]).expect("room for ballast");
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
            let refused = client.request(Method::POST, services, JSON, Some(&service)).await;
            assert_eq!(refused.expect_err("no room").code(), Some(503));
            let list: Value = client.get(CONFIG_MAPS).await.expect("reads go on");
            // One more is in every namespace from the start.
            assert_eq!(list["items"].as_array().map(Vec::len), Some(written + 1));
            std::fs::remove_file(&ballast).expect("less ballast");
            // Neither the address nor the port stayed taken by the refused attempt.
            let created = client.request(Method::POST, services, JSON, Some(&service)).await;
            created.expect("there is room again");
        });
        // However many writes were refused: a line for each time that the store began to fail.
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
fn a_disk_without_room_is_told_at_the_start() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        let ballast = disk.join("ballast");
        let mut file = std::fs::File::create(&ballast).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
        // A file that is open keeps its room.
        drop(file);
        let said = refusal(&disk);
        assert!(
            said.contains("free space") || said.contains("is full or failing"),
            "{said}"
        );
        std::fs::remove_file(&ballast).expect("no ballast");
        // What was begun does no harm.
        drop(SqliteStore::open(disk.join("store"), SqliteOptions::default()).expect("a store"));
    });
}

#[test]
fn a_disk_that_became_read_only_is_told_at_the_start() {
    testbed::in_namespace(|| {
        let disk = Path::new(testbed::RUN_DIRECTORY).join("disk");
        std::fs::create_dir(&disk).expect("a mount point");
        mount("disk", &disk, "tmpfs", MountFlags::empty(), Some(DISK)).expect("a small file system");
        drop(SqliteStore::open(disk.join("store"), SqliteOptions::default()).expect("a store"));
        mount_remount(&disk, MountFlags::RDONLY, "").expect("a read-only file system");
        let said = refusal(&disk);
        assert!(
            said.contains("Read-only file system") && said.contains("portolan.lock"),
            "{said}"
        );
        assert!(said.contains("mount its disk read-write"), "{said}");
    });
}

#[test]
fn data_that_cannot_be_used_are_told_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let store =
        || SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).expect("a store");
    let held = store();
    assert!(refusal(directory.path()).contains("in use by another process"));
    drop(held);
    let file = directory.path().join("store").join(store::DATABASE_FILE);
    let sound = std::fs::read(&file).expect("the database");
    // The number of the layout is SQLite's user version, at offset 60 of the file.
    let newer = [&sound[..60], &999_u32.to_be_bytes(), &sound[64..]].concat();
    for (content, said) in [
        (newer, "newer version"),
        (
            b"no database at all, but long enough".repeat(300),
            "restore it from a backup",
        ),
        (sound[..sound.len() / 2].to_vec(), "restore it from a backup"),
    ] {
        std::fs::write(&file, content).expect("damage");
        let line = refusal(directory.path());
        assert!(
            line.contains(said) && line.contains(store::DATABASE_FILE),
            "{line}"
        );
    }
    std::fs::write(&file, sound).expect("the database as it was");
    drop(store());
}

/// What a server says that is started on a data directory and ends at once.
fn refusal(data_directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["apiserver", "--listen=127.0.0.1:0", "--log-level=off"])
        .arg(format!("--data-dir={}", data_directory.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Writes objects of this size until no more fit. How many did.
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
    panic!("{OBJECTS_MAX} objects fit on a disk of {DISK:?}");
}
