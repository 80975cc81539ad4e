use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::load::LoadSource;
use crate::tests::test_images::{TestImage, archive_of, gzip};

fn store(directory: &TempDir) -> ImageStore {
    ImageStore::open(&directory.path().join("images"), StoreSettings::default()).expect("a store")
}

fn load(store: &ImageStore, name: &str, contents: &[&str]) -> Image {
    let image = TestImage::new(contents, gzip);
    let archive = archive_of(&image.layout(&json!({"io.containerd.image.name": name})));
    let mut loaded = store
        .load(LoadSource::stream(Cursor::new(archive)))
        .expect("loaded");
    loaded.remove(0)
}

fn ids<'a>(images: impl IntoIterator<Item = &'a Image>) -> BTreeSet<ImageId> {
    images.into_iter().map(|image| image.id.clone()).collect()
}

#[test]
fn digest_finds_an_image_under_its_tag() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let image = load(&store, "web:1", &["one"]);
    let by_digest = image.reference.at_digest(image.digest.clone());
    assert_eq!(
        store.find(&by_digest).expect("found").map(|found| found.id),
        Some(image.id)
    );
    let other: Reference = format!("other@{}", image.digest).parse().expect("a name");
    assert!(
        store.find(&other).expect("searched").is_none(),
        "another repository"
    );
}

#[test]
fn removal_keeps_shared_layers() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let one = load(&store, "one", &["shared", "one"]);
    let other = load(&store, "other", &["shared", "other"]);
    assert_eq!(one.layers[0], other.layers[0]);
    store.remove(&one.reference).expect("removed");
    assert!(store.find(&one.reference).expect("searched").is_none());
    assert!(!one.layers[1].exists());
    assert!(store.find(&other.reference).expect("searched").is_some());
    assert!(matches!(
        store.remove(&one.reference),
        Err(StoreError::NotFound(_))
    ));
}

#[test]
fn protected_images_survive_removal_and_moved_tags() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let image = load(&store, "web", &["one"]);
    assert_eq!(
        store.protect("agent", &ids([&image])).expect("protected"),
        BTreeSet::new()
    );
    assert!(matches!(
        store.remove(&image.reference),
        Err(StoreError::InUse { .. })
    ));
    assert_eq!(store.list().expect("a list")[0].holders, ["agent"]);
    // Another content takes the name while a container runs.
    let newer = load(&store, "web", &["two"]);
    store.protect("agent", &ids([&image])).expect("protected");
    let report = store.prune(&BTreeSet::new()).expect("pruned");
    assert_eq!(report.removed, std::slice::from_ref(&newer.reference));
    assert!(image.layers[0].exists() && !newer.layers[0].exists());
    store.protect("agent", &BTreeSet::new()).expect("released");
    store.prune(&BTreeSet::new()).expect("pruned");
    assert!(!image.layers[0].exists());
    assert_eq!(
        store.protect("agent", &ids([&image])).expect("recorded"),
        ids([&image]),
        "the image is missing"
    );
    assert!(matches!(
        store.protect("../x", &BTreeSet::new()),
        Err(StoreError::Holder(_))
    ));
}

#[test]
fn prune_keeps_images_in_use_and_locked_layers() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let (used, unused) = (load(&store, "used", &["one"]), load(&store, "unused", &["two"]));
    let layer_lock =
        store.lock_layers(&[Digest::from_file_name(&name_of(&unused.layers[0])).expect("a digest")]);
    let layer_lock = layer_lock.expect("a layer lock");
    let report = store.prune(&ids([&used])).expect("pruned");
    assert_eq!(report.removed, [unused.reference]);
    assert!(unused.layers[0].exists(), "a pull needs the layer");
    drop(layer_lock);
    assert_eq!(store.prune(&ids([&used])).expect("pruned").freed_bytes, 3);
    assert!(!unused.layers[0].exists() && used.layers[0].exists());
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn disk_thresholds_decide_about_removal() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let image = load(&store, "web", &["one"]);
    let thresholds = |high_percent, low_percent| DiskThresholds {
        high_percent,
        low_percent,
    };
    let nothing = BTreeSet::new();
    assert!(matches!(
        store.prune_for_disk(&nothing, thresholds(80, 80)),
        Err(StoreError::Thresholds { .. })
    ));
    let used = disk::used_percent(directory.path()).expect("a percentage");
    if used < 100 {
        store
            .prune_for_disk(&nothing, thresholds(100, 0))
            .expect("pruned");
        assert!(image.layers[0].exists(), "the disk is not full");
    }
    if used > 1 {
        let report = store.prune_for_disk(&nothing, thresholds(1, 0)).expect("pruned");
        assert_eq!(report.removed, [image.reference]);
        assert!(!image.layers[0].exists());
    }
}

#[test]
fn next_start_deletes_what_an_exited_process_left_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = store(&directory);
    let image = load(&opened, "web", &["one"]);
    let images = directory.path().join("images");
    fs::create_dir_all(images.join("unpacking/0123/inner")).expect("a directory");
    fs::write(images.join("unpacking/0123.lock"), "").expect("a file");
    fs::create_dir_all(images.join("trash/4567")).expect("a directory");
    fs::create_dir_all(images.join("layers").join(Digest::sha256(b"x").file_name())).expect("a directory");
    let reopened = store(&directory);
    assert_eq!(fs::read_dir(images.join("unpacking")).expect("names").count(), 0);
    assert_eq!(fs::read_dir(images.join("trash")).expect("names").count(), 0);
    reopened.prune(&ids([&image])).expect("pruned");
    assert_eq!(
        fs::read_dir(images.join("layers")).expect("names").count(),
        2,
        "one layer and its record"
    );
}

#[test]
fn image_without_a_layer_is_incomplete() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let image = load(&store, "web", &["one"]);
    fs::remove_file(format!("{}.json", image.layers[0].display())).expect("removed");
    assert!(store.find(&image.reference).expect("searched").is_none());
    assert_eq!(
        load(&store, "web", &["one"]).id,
        image.id,
        "the layer is unpacked again"
    );
}

#[test]
fn damaged_configuration_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let image = load(&store, "web", &["one"]);
    fs::write(store.path_of("blobs", &image.id.0), "{}").expect("written");
    assert!(matches!(
        store.find(&image.reference),
        Err(StoreError::Damaged { .. })
    ));
}
