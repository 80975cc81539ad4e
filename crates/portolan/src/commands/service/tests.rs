use super::*;

#[test]
fn the_unit_starts_up_with_its_flags() {
    let flags = [
        "--data-dir=/var/lib/a b".to_owned(),
        "--node-labels=x=100%".to_owned(),
    ];
    let text = unit(Path::new("/usr/bin/portolan"), "up", &flags).expect("a unit");
    let line = text.lines().find(|line| line.starts_with("ExecStart="));
    assert_eq!(
        line,
        Some("ExecStart=/usr/bin/portolan up \"--data-dir=/var/lib/a b\" --node-labels=x=100%%")
    );
    assert!(text.contains("\nKillMode=process\n") && text.contains("\nDelegate=yes\n"));
}

#[test]
fn the_file_comes_and_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = || UnitFlags {
        unit: directory.path().join("portolan.service"),
        file_only: true,
    };
    install(&InstallFlags {
        unit: flags(),
        join: false,
        up: vec![],
    })
    .expect("written");
    assert!(flags().unit.exists());
    remove(&flags()).expect("removed");
    remove(&flags()).expect("gone already");
    assert!(!flags().unit.exists());
}
