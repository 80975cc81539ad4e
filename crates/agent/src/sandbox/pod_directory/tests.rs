use std::fs;

use super::*;

#[test]
fn opens_sources_without_links_of_proc() {
    let directory = tempfile::tempdir().expect("a directory");
    let images = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("volume")).expect("a volume");
    let opened = OpenPodDirectory::open(directory.path(), Some(images.path())).expect("the directories");
    let (_, store) = opened.images().expect("an image store");
    let link = format!("/proc/self/fd/{}", store.as_raw_fd());
    assert!(opened.open_source(Path::new(&link)).is_err());
    assert!(opened.open_source(Path::new("/proc/self/root")).is_err());
    assert!(opened.open_source(&directory.path().join("volume")).is_ok());
    assert!(opened.open_source(other.path()).is_ok());
}
