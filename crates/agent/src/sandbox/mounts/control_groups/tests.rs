use super::*;

#[test]
fn hierarchy_is_known_by_the_files_of_a_group() {
    let directory = tempfile::tempdir().unwrap();
    let group = |name: &str, files: &[&str]| {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        for file in files {
            fs::write(path.join(file), "").unwrap();
        }
        Hierarchy::of(&path)
    };
    let controllers = |names: &[&'static str]| Hierarchy::Controllers(names.to_vec());
    let unified = group("unified", &["cgroup.controllers", "pids.max", "memory.max"]);
    assert_eq!(unified, Hierarchy::Unified);
    assert_eq!(group("pids", &["pids.max"]), controllers(&["pids"]));
    let both = group("cpu", &["cpuacct.usage", "cpu.shares", "tasks"]);
    assert_eq!(both, controllers(&["cpu", "cpuacct"]));
    assert_eq!(group("other", &["tasks"]), controllers(&[]));
}

#[test]
fn privileged_containers_see_the_groups_of_the_node() {
    let privileged = Confinement {
        is_privileged: true,
        ..Confinement::default()
    };
    assert!(ControlGroups::detach(&privileged).unwrap().is_none());
    let groups = ControlGroups::detach(&Confinement::default()).unwrap().unwrap();
    assert!(groups.0.is_empty());
}
