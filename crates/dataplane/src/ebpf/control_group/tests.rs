use super::*;

#[test]
fn mount_of_cgroup2_is_found_among_others() {
    let v1 = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory";
    let v2 = "34 25 0:30 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate";
    assert_eq!(control_group_mount(v1), None);
    assert_eq!(
        control_group_mount(v2),
        Some(PathBuf::from("/sys/fs/cgroup/unified"))
    );
}

#[test]
fn directory_of_another_file_system_is_not_a_control_group() {
    let error = open_control_group(Some(Path::new("/proc"))).unwrap_err();
    assert!(
        matches!(error, ControlGroupError::NotControlGroup { .. }),
        "{error}"
    );
}

#[test]
fn missing_directory_is_named() {
    let error = open_control_group(Some(Path::new("/does/not/exist"))).unwrap_err();
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}
