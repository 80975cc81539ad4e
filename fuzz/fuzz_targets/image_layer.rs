//! Layers of images, alone or compressed: unpacking changes nothing outside of its root.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|layer: &[u8]| {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    fs::create_dir(&root).expect("a root");
    fs::write(directory.path().join("outside"), "untouched").expect("a file");
    if let Ok(size) = images::unpack_for_test(layer, &root) {
        assert!(size.entries > 0 || fs::read_dir(&root).expect("names").next().is_none());
    }
    let outside = fs::read(directory.path().join("outside")).expect("the file outside");
    assert_eq!(outside, b"untouched");
    assert_eq!(fs::read_dir(directory.path()).expect("names").count(), 2);
});
