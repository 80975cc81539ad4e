use std::fs;
use std::io::Cursor;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::settings::StoreSettings;
use crate::tests::test_images::{TestImage, archive_of, gzip, zstd};

struct Host {
    directory: TempDir,
    store: ImageStore,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store =
            ImageStore::open(&directory.path().join("images"), StoreSettings::default()).expect("a store");
        Self { directory, store }
    }

    fn load_file(&self, archive: &[u8]) -> Result<Vec<Image>, LoadError> {
        let path = self.directory.path().join("archive.tar");
        fs::write(&path, archive).expect("an archive");
        self.store.load(LoadSource::path(path))
    }

    /// Names in the directories of the store that must be empty between operations, and of the layers.
    fn leftovers(&self) -> Vec<String> {
        let names = |directory: &str| {
            let path = self.directory.path().join("images").join(directory);
            let entries = fs::read_dir(path).expect("a directory");
            entries
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect::<Vec<_>>()
        };
        ["layers", "unpacking", "trash", "claims", "downloads", "names"]
            .map(names)
            .concat()
    }
}

fn check(image: &Image, contents: &[&str]) {
    assert_eq!(image.layers.len(), contents.len());
    for (number, content) in contents.iter().enumerate() {
        let path = image.layers[number].join(format!("file{number}"));
        assert_eq!(fs::read_to_string(path).expect("a file"), *content);
    }
    assert_eq!(image.config.command, ["/file0"]);
}

fn layout_name(name: &str) -> Value {
    json!({"io.containerd.image.name": name})
}

#[test]
fn archives_of_docker_save_are_loaded() {
    let image = TestImage::new(&["one", "two"], gzip);
    let archive = archive_of(&image.docker_files("web:1"));
    for archive in [archive.clone(), gzip(&archive), zstd(&archive)] {
        let host = Host::new();
        let loaded = host.load_file(&archive).expect("loaded");
        check(&loaded[0], &["one", "two"]);
        assert_eq!(loaded[0].reference.to_string(), "docker.io/library/web:1");
        let found = host
            .store
            .find(&loaded[0].reference)
            .expect("found")
            .expect("an image");
        check(&found, &["one", "two"]);
        assert_eq!(found.id, loaded[0].id);
    }
}

#[test]
fn layouts_are_loaded_from_archive_directory_and_stream() {
    let image = TestImage::new(&["one"], zstd);
    let files = image.layout(&layout_name("quay.io/team/web:1"));
    let archive = archive_of(&files);
    let host = Host::new();
    let loaded = host.load_file(&archive).expect("loaded");
    check(&loaded[0], &["one"]);
    assert_eq!(loaded[0].digest, Digest::sha256(&image.manifest));

    let host = Host::new();
    let stream = LoadSource::stream(Cursor::new(archive));
    check(&host.store.load(stream).expect("loaded")[0], &["one"]);

    let host = Host::new();
    let layout = host.directory.path().join("layout");
    for (path, content) in &files {
        let path = layout.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
    check(
        &host.store.load(LoadSource::path(layout)).expect("loaded")[0],
        &["one"],
    );
}

#[test]
fn image_without_name_needs_one() {
    let image = TestImage::new(&["one"], gzip);
    // A tag alone is not a name.
    let archive = archive_of(&image.layout(&json!({"org.opencontainers.image.ref.name": "latest"})));
    let host = Host::new();
    assert!(matches!(host.load_file(&archive), Err(LoadError::Unnamed)));
    let source = LoadSource::stream(Cursor::new(archive)).named("web:2".parse().expect("a name"));
    let loaded = host.store.load(source).expect("loaded");
    assert_eq!(loaded[0].reference.to_string(), "docker.io/library/web:2");
}

#[test]
fn equal_layers_are_one_member_of_older_archives() {
    let image = TestImage::of_layers(
        vec![crate::tests::test_images::archive([("file0", &b"one"[..])]); 2],
        gzip,
    );
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in image.docker_files("web:1") {
        let mut header = tar::Header::new_gnu();
        if path == "1/layer.tar" {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder
                .append_link(&mut header, path, "../0/layer.tar")
                .expect("a link");
        } else {
            header.set_size(content.len() as u64);
            builder
                .append_data(&mut header, path, &content[..])
                .expect("a file");
        }
    }
    let host = Host::new();
    let loaded = host
        .load_file(&builder.into_inner().expect("an archive"))
        .expect("loaded");
    assert_eq!(loaded[0].layers[0], loaded[0].layers[1]);
}

#[test]
fn refused_archives_leave_nothing_in_the_store() {
    let image = TestImage::new(&["one", "two"], gzip);
    let mut wrong_layer = image.layout(&layout_name("web:1"));
    let last = wrong_layer.len() - 1;
    wrong_layer[last].1 = image.compressed[0].clone();
    let mut wrong_manifest = image.layout(&layout_name("web:1"));
    wrong_manifest[2].1.push(b' ');
    let mut missing = image.layout(&layout_name("web:1"));
    missing.pop();
    let escape = TestImage::of_layers(vec![hostile_layer()], gzip);
    let archive = archive_of(&image.layout(&layout_name("web:1")));
    for (archive, reason) in [
        (archive_of(&wrong_layer), "with the digest"),
        (archive_of(&wrong_manifest), "with the digest"),
        (archive_of(&missing), "the archive has no"),
        (
            archive_of(&escape.layout(&layout_name("web:1"))),
            "contains \"..\"",
        ),
        (archive[..archive.len() - 1_600].to_vec(), "truncated"),
        (
            archive_of(&image.layout(&layout_name("Web:1"))),
            "must be lowercase",
        ),
        (b"text".to_vec(), "truncated"),
        (
            crate::tests::test_images::archive([("a", &b"b"[..])]),
            "contains no image",
        ),
    ] {
        let host = Host::new();
        let error = host.load_file(&archive).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        // Complete layers of a refused image stay until the next removal of unused parts.
        host.store
            .prune(&std::collections::BTreeSet::new())
            .expect("pruned");
        assert_eq!(host.leftovers(), Vec::<String>::new(), "{reason}");
    }
}

fn hostile_layer() -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().expect("a GNU header").name[..10].copy_from_slice(b"../outside");
    header.set_size(0);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &b""[..]).expect("an entry");
    builder.into_inner().expect("an archive")
}
