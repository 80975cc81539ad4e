use super::*;

#[test]
fn unit_quotes_the_flags() {
    let flags = [
        "--data-dir=/var/lib/a b".to_owned(),
        "--node-labels=x=100%".to_owned(),
    ];
    let text = render_unit(Path::new("/usr/bin/portolan"), "up", &flags, None).expect("a unit");
    let line = text.lines().find(|line| line.starts_with("ExecStart="));
    assert_eq!(
        line,
        Some("ExecStart=/usr/bin/portolan up \"--data-dir=/var/lib/a b\" --node-labels=x=100%%")
    );
    assert!(text.contains("\nKillMode=process\n") && text.contains("\nDelegate=yes\n"));
}

#[test]
fn unit_reads_additional_flags_from_a_file() {
    let file = Path::new("/etc/default/100%");
    let text = render_unit(Path::new("/usr/bin/portolan"), "join", &[], Some(file)).expect("a unit");
    let expected =
        "[Service]\nEnvironmentFile=-/etc/default/100%%\nExecStart=/usr/bin/portolan join $PORTOLAN_FLAGS\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn unit_rejects_relative_paths() {
    for (program, file) in [("portolan", "/etc/flags"), ("/usr/bin/portolan", "flags")] {
        let unit = render_unit(Path::new(program), "up", &[], Some(Path::new(file)));
        assert!(matches!(unit, Err(UnitError::UnitPath(_))), "{unit:?}");
    }
}

#[test]
fn removal_of_a_missing_unit_succeeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = || UnitFlags {
        unit: directory.path().join("portolan.service"),
        file_only: true,
    };
    install(&InstallFlags {
        unit: flags(),
        join: false,
        program: None,
        flags_file: None,
        up: vec![],
    })
    .expect("an installed unit");
    assert!(flags().unit.exists());
    remove(&flags()).expect("a removed unit");
    remove(&flags()).expect("a missing unit");
    assert!(!flags().unit.exists());
}

#[test]
fn token_is_in_a_private_file_and_not_in_the_unit() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("portolan.service");
    for token in [
        &["--token", "abcdef.0123456789abcdef"][..],
        &["--token=abcdef.0123456789abcdef"],
    ] {
        let mut up = vec!["--server=https://192.0.2.1:6443".to_owned()];
        up.extend(token.iter().map(|word| (*word).to_owned()));
        install(&InstallFlags {
            unit: UnitFlags {
                unit: path.clone(),
                file_only: true,
            },
            join: true,
            program: None,
            flags_file: None,
            up,
        })
        .expect("an installed unit");
        let unit = fs::read_to_string(&path).expect("a unit");
        assert!(
            !unit.contains("0123456789abcdef") && unit.contains("--token-file="),
            "{unit}"
        );
        let file = token_file(&path);
        assert_eq!(
            fs::read_to_string(&file).expect("a token"),
            "abcdef.0123456789abcdef"
        );
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    remove(&UnitFlags {
        unit: path.clone(),
        file_only: true,
    })
    .expect("a removed unit");
    assert!(!token_file(&path).exists());
}

#[test]
fn flags_that_the_service_would_reject_are_rejected() {
    let check = |subcommand, flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        check_flags(subcommand, &flags).map_err(|error| error.to_string())
    };
    assert_eq!(check("up", &["--proxy-mode=iptables"]), Ok(()));
    assert_eq!(check("join", &["--server", "https://192.0.2.1:6443"]), Ok(()));
    let error = check("up", &["--bogus"]).expect_err("no flag");
    assert!(
        error.starts_with("portolan up rejects the flags after --: unexpected argument '--bogus'"),
        "{error}"
    );
    assert!(check("join", &["--server", "192.0.2.1"]).is_err());
}

#[test]
fn host_without_a_running_systemd_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    find_systemd(directory.path()).expect("a running systemd");
    let missing = find_systemd(&directory.path().join("system"));
    let error = missing.expect_err("no running systemd");
    assert!(error.to_string().contains("--file-only"), "{error}");
}
