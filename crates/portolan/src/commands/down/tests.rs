use rustix::mount::{MountFlags, mount};

use super::*;

#[test]
fn content_of_a_mount_point_is_removed() {
    testbed::in_namespace(|| {
        let parent = tempfile::tempdir_in(testbed::RUN_DIRECTORY).expect("a directory");
        let directory = parent.path().join("data");
        fs::create_dir(&directory).expect("a directory");
        mount("portolan", &directory, "tmpfs", MountFlags::NOSUID, None).expect("a mount");
        fs::create_dir_all(directory.join("store/a")).expect("a directory");
        remove_directory(&directory).expect("an empty directory");
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0);
        rustix::mount::unmount(&directory, rustix::mount::UnmountFlags::DETACH).expect("no mount");
        remove_directory(&directory).expect("no directory");
        assert!(!directory.exists());
    });
}
