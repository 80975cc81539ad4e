use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use proptest::prelude::*;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;
use crate::tests::test_images::{gzip, zstd};

mod hostile;
mod model;

/// Layer under construction.
pub(super) struct LayerBuilder {
    archive: Builder<Vec<u8>>,
}

impl LayerBuilder {
    pub(super) fn new() -> Self {
        Self {
            archive: Builder::new(Vec::new()),
        }
    }

    /// Adds an entry whose path and link are written as they are, without the checks of the crate `tar`.
    pub(super) fn raw(mut self, kind: EntryType, path: &str, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        let fields = header.as_gnu_mut().expect("a GNU header");
        fields.name[..path.len()].copy_from_slice(path.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(if kind == EntryType::Directory {
            0o750
        } else {
            0o640
        });
        header.set_uid(1000);
        header.set_gid(1001);
        header.set_mtime(1_000_000_000);
        header.set_cksum();
        self.archive.append(&header, content).expect("an entry");
        self
    }

    pub(super) fn file(self, path: &str, content: &str) -> Self {
        self.raw(EntryType::Regular, path, "", content.as_bytes())
    }

    pub(super) fn directory(self, path: &str) -> Self {
        self.raw(EntryType::Directory, path, "", b"")
    }

    pub(super) fn symlink(self, path: &str, target: &str) -> Self {
        self.raw(EntryType::Symlink, path, target, b"")
    }

    pub(super) fn hard_link(self, path: &str, target: &str) -> Self {
        self.raw(EntryType::Link, path, target, b"")
    }

    /// Adds records of an extended header for the next entry.
    pub(super) fn extended<'a>(mut self, records: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        self.archive.append_pax_extensions(records).expect("records");
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.archive.into_inner().expect("an archive")
    }
}

/// Directory with a root for a layer in it, and a file beside the root that no layer may change.
pub(super) struct Destination {
    directory: TempDir,
}

impl Destination {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("root")).expect("a root");
        fs::write(directory.path().join("outside"), "untouched").expect("a file");
        Self { directory }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(super) fn unpack(&self, layer: &[u8]) -> Result<UnpackedSize, LayerError> {
        let unpacked = unpack_for_test(layer, &self.root());
        let outside = fs::read_to_string(self.directory.path().join("outside")).expect("the file outside");
        assert_eq!(outside, "untouched");
        let names = fs::read_dir(self.directory.path()).expect("names").count();
        assert_eq!(names, 2, "the layer has created a file outside of its root");
        unpacked
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn is_whiteout(&self, path: &str) -> bool {
        let metadata = fs::symlink_metadata(self.root().join(path)).expect("a file");
        metadata.file_type().is_char_device() && metadata.rdev() == 0
    }

    fn is_opaque(&self, path: &str) -> bool {
        let mut value = [0; 8];
        ["trusted.overlay.opaque", "user.overlay.opaque"]
            .iter()
            .any(|name| {
                let read = rustix::fs::getxattr(self.root().join(path), *name, &mut value);
                read == Ok(1) && value[0] == b'y'
            })
    }
}

fn is_root_user() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_have_content_mode_owner_and_time() {
    let destination = Destination::new();
    let layer = LayerBuilder::new()
        .directory("etc/")
        .file("etc/passwd", "root:x:0:0")
        .symlink("etc/link", "passwd")
        .hard_link("etc/hard", "etc/passwd")
        .file("implicit/directory/file", "")
        .raw(EntryType::Fifo, "pipe", "", b"")
        .finish();
    let size = destination.unpack(&layer).expect("unpacked");
    assert_eq!(
        size,
        UnpackedSize {
            bytes: 10,
            entries: 6
        }
    );
    assert_eq!(destination.text("etc/passwd"), "root:x:0:0");
    assert_eq!(destination.text("etc/link"), "root:x:0:0");
    let metadata = |path: &str| fs::symlink_metadata(destination.root().join(path)).expect("metadata");
    assert_eq!(metadata("etc/hard").ino(), metadata("etc/passwd").ino());
    assert_eq!(metadata("etc").mode() & 0o7777, 0o750);
    assert_eq!(metadata("etc/passwd").mode() & 0o7777, 0o640);
    assert_eq!(metadata("implicit/directory").mode() & 0o7777, 0o755);
    for path in ["etc", "etc/passwd", "etc/link", "pipe"] {
        assert_eq!(metadata(path).mtime(), 1_000_000_000, "{path}");
        if is_root_user() {
            assert_eq!(
                (metadata(path).uid(), metadata(path).gid()),
                (1000, 1001),
                "{path}"
            );
        }
    }
    assert!(metadata("pipe").file_type().is_fifo());
}

#[test]
fn compression_is_recognised_by_content() {
    let layer = LayerBuilder::new().file("a", "content").finish();
    let mut frames = zstd(&layer[..700]);
    // A skippable frame of three bytes, as layers of zstd:chunked have them.
    frames.extend([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    frames.extend(zstd(&layer[700..]));
    let mut members = gzip(&layer[..700]);
    members.extend(gzip(&layer[700..]));
    for compressed in [layer.clone(), gzip(&layer), zstd(&layer), frames, members] {
        let destination = Destination::new();
        destination.unpack(&compressed).expect("unpacked");
        assert_eq!(destination.text("a"), "content");
    }
}

#[test]
fn zstd_frames_with_large_windows_are_refused() {
    // Window descriptor 0xf0: a window of 1 TiB. The only block is raw, the last one, and empty.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xf0, 1, 0, 0];
    let second = [zstd(b"first").as_slice(), &frame].concat();
    for frames in [frame.to_vec(), second] {
        let error = Destination::new().unpack(&frames).expect_err("a large window");
        assert!(matches!(error, LayerError::Read(_)), "{error}");
    }
}

#[test]
fn digests_of_both_sides_are_verified() {
    let layer = LayerBuilder::new().file("a", "content").finish();
    let compressed = gzip(&layer);
    let options = UnpackOptions {
        devices: DevicePolicy::Skip,
        attributes: OverlayAttributes::User,
        limits: Limits::default(),
        cancelled: Arc::default(),
    };
    let unpack_with =
        |digests: LayerDigests| unpack(&compressed[..], &digests, &Destination::new().root(), &options);
    let right = LayerDigests {
        compressed: Some(Digest::sha256(&compressed)),
        uncompressed: Digest::sha256(&layer),
    };
    assert!(unpack_with(right.clone()).is_ok());
    let wrong = Digest::sha256(b"");
    for digests in [
        LayerDigests {
            compressed: Some(wrong.clone()),
            ..right.clone()
        },
        LayerDigests {
            uncompressed: wrong,
            ..right
        },
    ] {
        assert!(matches!(unpack_with(digests), Err(LayerError::Digest { .. })));
    }
}

#[test]
fn whiteouts_have_the_form_of_the_overlay_file_system() {
    let destination = Destination::new();
    let layer = LayerBuilder::new()
        .file("a/.wh.removed", "")
        .file("b/.wh..wh..opq", "")
        .file(".wh..wh.plnk", "")
        .file("c/file", "kept")
        .file("c/.wh.file", "")
        .file(".wh.d", "")
        .file("d/file", "after")
        .directory("e")
        .file(".wh.e", "")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    assert!(destination.is_whiteout("a/removed"));
    assert!(destination.is_opaque("b"));
    assert!(!destination.is_opaque("a"));
    assert_eq!(
        destination.text("c/file"),
        "kept",
        "a whiteout hides files of lower layers only"
    );
    assert_eq!(destination.text("d/file"), "after");
    assert!(destination.is_opaque("d") && destination.is_opaque("e"));
    assert!(!destination.root().join(".wh..wh.plnk").exists());
}

#[test]
fn later_entries_replace_earlier_ones() {
    let destination = Destination::new();
    let layer = LayerBuilder::new()
        .file("file", "one")
        .file("file", "two")
        .file("directory/inner/file", "gone")
        .file("directory", "file now")
        .file("other", "gone")
        .directory("other")
        .file("other/file", "inside")
        .directory("kept")
        .file("kept/file", "kept")
        .directory("kept")
        .symlink("link", "outside")
        .file("link", "file now")
        .hard_link("kept/file", "kept/file")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    for (path, content) in [
        ("file", "two"),
        ("directory", "file now"),
        ("other/file", "inside"),
        ("kept/file", "kept"),
        ("link", "file now"),
    ] {
        assert_eq!(destination.text(path), content, "{path}");
    }
}

#[test]
fn extended_headers_carry_long_names_and_attributes() {
    let destination = Destination::new();
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let layer = LayerBuilder::new()
        .extended([
            ("path", long.as_bytes()),
            ("SCHILY.xattr.user.note", b"line\nline"),
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
            ("mtime", b"1500000000.25"),
        ])
        .file("short", "content")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    assert_eq!(destination.text(&long), "content");
    let path = destination.root().join(&long);
    let metadata = fs::metadata(&path).expect("metadata");
    assert_eq!(
        (metadata.mtime(), metadata.mtime_nsec()),
        (1_500_000_000, 250_000_000)
    );
    let mut value = [0; 64];
    for name in ["trusted.overlay.redirect", "user.overlay.redirect"] {
        assert!(rustix::fs::getxattr(&path, name, &mut value).is_err(), "{name}");
    }
    // Some file systems have no attributes of users.
    if let Ok(read) = rustix::fs::getxattr(&path, "user.note", &mut value) {
        assert_eq!(&value[..read], b"line\nline");
    }
}

#[test]
fn capabilities_survive_the_change_of_the_owner() {
    if !is_root_user() {
        println!("skipped: capabilities_survive_the_change_of_the_owner: needs root");
        return;
    }
    // Version 2, effective, cap_net_bind_service.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let destination = Destination::new();
    let layer = LayerBuilder::new()
        .extended([("SCHILY.xattr.security.capability", &capability[..])])
        .file("program", "")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    let mut value = [0; 64];
    let read = rustix::fs::getxattr(
        destination.root().join("program"),
        "security.capability",
        &mut value,
    );
    assert_eq!(read.map(|read| value[..read].to_vec()), Ok(capability.to_vec()));
}

#[test]
fn devices_are_skipped() {
    let destination = Destination::new();
    let layer = LayerBuilder::new()
        .raw(EntryType::Char, "dev/null", "", b"")
        .raw(EntryType::Block, "dev/sda", "", b"")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    assert_eq!(
        fs::read_dir(destination.root().join("dev"))
            .expect("names")
            .count(),
        0
    );
}
