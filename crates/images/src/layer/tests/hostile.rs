//! Archives that try to leave the root, or to exhaust the host.

use super::*;

fn unpack_error(layer: Vec<u8>) -> LayerError {
    let destination = Destination::new();
    destination.unpack(&layer).expect_err("an error")
}

fn reason(layer: Vec<u8>) -> EntryError {
    match unpack_error(layer) {
        LayerError::Entry { reason, .. } => reason,
        error => panic!("another error: {error}"),
    }
}

#[test]
fn parent_directories_are_rejected() {
    for path in ["../outside", "a/../../outside", "..", "a/..", "./../outside"] {
        assert_eq!(
            reason(LayerBuilder::new().file(path, "x").finish()),
            EntryError::Parent,
            "{path}"
        );
        let link = LayerBuilder::new().hard_link("link", path).finish();
        assert_eq!(reason(link), EntryError::Parent, "{path}");
        let directory = LayerBuilder::new().directory(path).finish();
        assert_eq!(reason(directory), EntryError::Parent, "{path}");
    }
}

#[test]
fn absolute_paths_stay_below_the_root() {
    let destination = Destination::new();
    let absolute = destination.directory.path().join("outside");
    let absolute = absolute.to_str().expect("text").to_owned();
    destination
        .unpack(&LayerBuilder::new().file(&absolute, "x").finish())
        .expect("unpacked");
    assert_eq!(destination.text(absolute.trim_start_matches('/')), "x");
}

#[test]
fn symbolic_links_are_not_followed() {
    for target in ["..", "/", "../..", "/etc", "a"] {
        for path in ["link/outside", "link/directory/file"] {
            let layer = LayerBuilder::new()
                .directory("a")
                .symlink("link", target)
                .file(path, "x")
                .finish();
            assert_eq!(reason(layer), EntryError::ParentNotDirectory, "{target} {path}");
        }
        let layer = LayerBuilder::new()
            .symlink("link", target)
            .file("link/.wh.outside", "")
            .finish();
        assert_eq!(reason(layer), EntryError::ParentNotDirectory, "{target}");
        let layer = LayerBuilder::new()
            .symlink("link", target)
            .file("link/.wh..wh..opq", "")
            .finish();
        assert_eq!(reason(layer), EntryError::ParentNotDirectory, "{target}");
        let layer = LayerBuilder::new()
            .symlink("link", target)
            .hard_link("b", "link/outside")
            .finish();
        assert_eq!(reason(layer), EntryError::ParentNotDirectory, "{target}");
    }
}

#[test]
fn hard_link_to_a_symbolic_link_links_the_link_itself() {
    let destination = Destination::new();
    let outside = destination.directory.path().join("outside");
    let layer = LayerBuilder::new()
        .symlink("link", outside.to_str().expect("text"))
        .hard_link("hard", "link")
        .file("hard", "replaced")
        .finish();
    destination.unpack(&layer).expect("unpacked");
    assert_eq!(destination.text("hard"), "replaced");
}

#[test]
fn hard_links_need_a_file_of_the_layer() {
    for target in ["missing", "directory", "missing/file", "hidden", "", "/"] {
        let layer = LayerBuilder::new()
            .directory("directory")
            .file(".wh.hidden", "")
            .hard_link("link", target);
        assert_eq!(reason(layer.finish()), EntryError::HardLink, "{target:?}");
    }
    let layer = LayerBuilder::new()
        .file("a/b", "x")
        .hard_link("a", "a/b")
        .finish();
    assert_eq!(reason(layer), EntryError::HardLink);
}

#[test]
fn whiteouts_without_a_name_or_of_parents_are_rejected() {
    for path in [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh.a/b"] {
        assert_eq!(
            reason(LayerBuilder::new().file(path, "").finish()),
            EntryError::Whiteout,
            "{path}"
        );
    }
}

#[test]
fn files_are_not_parents() {
    let layer = LayerBuilder::new().file("a", "").file("a/b", "").finish();
    assert_eq!(reason(layer), EntryError::ParentNotDirectory);
    let pipe = LayerBuilder::new()
        .raw(EntryType::Fifo, "a", "", b"")
        .file("a/b", "")
        .finish();
    assert_eq!(reason(pipe), EntryError::ParentNotDirectory);
}

#[test]
fn root_must_stay_a_directory() {
    for path in ["/", ".", "./"] {
        let layer = LayerBuilder::new().symlink(path, "/etc").finish();
        assert_eq!(reason(layer), EntryError::Root, "{path}");
    }
}

#[test]
fn deep_and_long_paths_are_refused() {
    let deep = "d/".repeat(limits::DEPTH_MAX + 1);
    let layer = LayerBuilder::new()
        .extended([("path", deep.as_bytes())])
        .directory("x")
        .finish();
    assert_eq!(reason(layer), EntryError::Depth);
    let name = "n".repeat(limits::NAME_BYTES_MAX + 1);
    let layer = LayerBuilder::new()
        .extended([("path", name.as_bytes())])
        .file("x", "")
        .finish();
    assert_eq!(reason(layer), EntryError::PathBytes);
    let long = "l/".repeat(limits::PATH_BYTES_MAX);
    let layer = LayerBuilder::new()
        .extended([("linkpath", long.as_bytes())])
        .symlink("x", "y")
        .finish();
    assert_eq!(reason(layer), EntryError::PathBytes);
    let zero = LayerBuilder::new()
        .extended([("path", &b"a\0b"[..])])
        .file("x", "")
        .finish();
    assert_eq!(reason(zero), EntryError::ZeroByte);
}

#[test]
fn sparse_files_and_unknown_types_are_rejected() {
    let layer = LayerBuilder::new()
        .raw(EntryType::GNUSparse, "x", "", b"")
        .finish();
    assert_eq!(reason(layer), EntryError::Sparse);
    let layer = LayerBuilder::new()
        .extended([("GNU.sparse.realsize", &b"999999999999"[..])])
        .file("x", "");
    assert_eq!(reason(layer.finish()), EntryError::Sparse);
    let layer = LayerBuilder::new()
        .raw(EntryType::new(b'M'), "x", "", b"")
        .finish();
    assert_eq!(reason(layer), EntryError::Kind('M'));
}

#[test]
fn sizes_beyond_the_archive_are_rejected() {
    for size in ["18446744073709551615", "1099511627776"] {
        let layer = LayerBuilder::new()
            .extended([("size", size.as_bytes())])
            .file("x", "short")
            .finish();
        assert!(matches!(unpack_error(layer), LayerError::Truncated), "{size}");
    }
    let invalid = LayerBuilder::new()
        .extended([("size", &b"-5"[..])])
        .file("x", "")
        .finish();
    assert_eq!(reason(invalid), EntryError::Number("size"));
}

#[test]
fn truncated_archives_are_rejected() {
    let layer = LayerBuilder::new().file("a", &"x".repeat(2_000)).finish();
    for length in [100, 513, 1_500] {
        assert!(
            matches!(unpack_error(layer[..length].to_vec()), LayerError::Truncated),
            "{length}"
        );
    }
    let compressed = gzip(&layer);
    assert!(matches!(
        unpack_error(compressed[..compressed.len() / 2].to_vec()),
        LayerError::Truncated
    ));
    let compressed = zstd(&layer);
    assert!(
        Destination::new()
            .unpack(&compressed[..compressed.len() / 2])
            .is_err()
    );
}

#[test]
fn other_contents_are_rejected() {
    let mut layer = LayerBuilder::new().file("a", "").finish();
    layer[0] = b'b';
    assert!(matches!(unpack_error(layer), LayerError::Archive(_)));
    assert!(matches!(unpack_error(vec![b'x'; 4_096]), LayerError::Archive(_)));
    assert!(matches!(
        unpack_error(b"BZh91AY&SY".repeat(100)),
        LayerError::Archive(_)
    ));
}

#[test]
fn extended_headers_are_bounded() {
    let long = vec![b'x'; limits::EXTENDED_HEADER_BYTES_MAX as usize];
    let layer = LayerBuilder::new()
        .extended([("comment", long.as_slice())])
        .file("a", "")
        .finish();
    assert!(matches!(
        unpack_error(layer),
        LayerError::Limit(Limit::ExtendedHeaderBytes)
    ));
    let layer = LayerBuilder::new()
        .raw(EntryType::GNULongName, "x", "", &long)
        .raw(EntryType::GNULongLink, "x", "", &[long.as_slice(), b"x"].concat());
    assert!(matches!(
        unpack_error(layer.finish()),
        LayerError::Limit(Limit::ExtendedHeaderBytes)
    ));
    let names: Vec<String> = (0..=limits::ATTRIBUTES_MAX)
        .map(|number| format!("SCHILY.xattr.user.{number}"))
        .collect();
    let records = names.iter().map(|name| (name.as_str(), &b"x"[..]));
    let layer = LayerBuilder::new().extended(records).file("a", "").finish();
    assert!(matches!(
        unpack_error(layer),
        LayerError::Entry {
            reason: EntryError::Attributes,
            ..
        }
    ));
}

fn unpack_within(layer: &[u8], limits: Limits) -> Result<UnpackedSize, LayerError> {
    let options = UnpackOptions {
        devices: DevicePolicy::Skip,
        attributes: OverlayAttributes::User,
        limits,
        cancelled: Arc::default(),
    };
    let unpacked = unpack_unverified(
        layer,
        (None, Algorithm::Sha256),
        &Destination::new().root(),
        &options,
    );
    unpacked.map(|(size, _, _)| size)
}

#[test]
fn bombs_are_refused() {
    let zeros = String::from_utf8(vec![0; 4 << 20]).expect("text");
    let layer = LayerBuilder::new().file("zeros", &zeros).finish();
    let limits = Limits {
        ratio_free_bytes: 1 << 20,
        ..Limits::default()
    };
    for compressed in [gzip(&layer), zstd(&layer)] {
        let error = unpack_within(&compressed, limits).expect_err("a bomb");
        assert!(
            matches!(error, LayerError::Limit(Limit::CompressionRatio)),
            "{error}"
        );
    }
    assert!(
        unpack_within(&layer, limits).is_ok(),
        "the layer is not compressed"
    );
    // The end of the archive does not hide a bomb after it.
    let mut followed = LayerBuilder::new().file("a", "").finish();
    followed.extend(vec![0; 4 << 20]);
    let error = unpack_within(&gzip(&followed), limits).expect_err("a bomb");
    assert!(
        matches!(error, LayerError::Limit(Limit::CompressionRatio)),
        "{error}"
    );
    let limits = Limits {
        archive_bytes: 1 << 20,
        ..Limits::default()
    };
    let error = unpack_within(&layer, limits).expect_err("too long");
    assert!(matches!(error, LayerError::Limit(Limit::ArchiveBytes)), "{error}");
}

#[test]
fn entries_are_counted() {
    let layer = LayerBuilder::new()
        .file("a", "")
        .file("a", "")
        .file("a", "")
        .finish();
    let limits = Limits {
        entries: 2,
        ..Limits::default()
    };
    let error = unpack_within(&layer, limits).expect_err("too many");
    assert!(matches!(error, LayerError::Limit(Limit::Entries)), "{error}");
}

#[test]
fn cancelled_unpacking_ends() {
    let options = UnpackOptions {
        devices: DevicePolicy::Skip,
        attributes: OverlayAttributes::User,
        limits: Limits::default(),
        cancelled: Arc::new(AtomicBool::new(true)),
    };
    let layer = LayerBuilder::new().file("a", "").finish();
    let unpacked = unpack_unverified(
        &layer[..],
        (None, Algorithm::Sha256),
        &Destination::new().root(),
        &options,
    );
    assert!(matches!(unpacked, Err(LayerError::Cancelled)));
}
