//! A disk without room: writes are refused with a reason, reads go on, and room mends it.

use std::path::Path;

use client::{Client, JSON};
use http::Method;
use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};

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
        let api = Api::start_in(tempfile::tempdir_in(&disk).expect("a directory"));
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
            assert_eq!(list["items"].as_array().map(Vec::len), Some(written));
            std::fs::remove_file(&ballast).expect("less ballast");
            // Neither the address nor the port stayed taken by the refused attempt.
            let created = client.request(Method::POST, services, JSON, Some(&service)).await;
            created.expect("there is room again");
        });
    });
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
