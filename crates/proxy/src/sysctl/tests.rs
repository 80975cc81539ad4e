use super::*;

fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
    }
    root
}

fn number(root: &tempfile::TempDir, path: &str) -> i64 {
    read_number(&root.path().join(path)).expect("a number")
}

#[test]
fn conntrack_limit_grows_with_cores_within_bounds() {
    let settings = |max_per_core, min| ConntrackSettings {
        max_per_core,
        min,
        ..ConntrackSettings::default()
    };
    for (settings, cores, limit) in [
        (settings(None, None), 4, None),
        (settings(Some(0), Some(131_072)), 4, None),
        (settings(Some(32_768), Some(131_072)), 2, Some(131_072)),
        (settings(Some(32_768), Some(131_072)), 8, Some(262_144)),
        (settings(Some(32_768), None), 256, Some(CONNECTIONS_MAX)),
    ] {
        assert_eq!(settings.limit(cores), limit, "{settings:?} on {cores}");
    }
}

#[test]
fn writes_changed_settings_and_reports_missing_files() {
    let root = root(&[
        ("net/netfilter/nf_conntrack_max", "65536\n"),
        ("net/netfilter/nf_conntrack_tcp_timeout_established", "432000\n"),
        ("net/netfilter/nf_conntrack_udp_timeout", "30\n"),
        ("module/nf_conntrack/parameters/hashsize", "16384\n"),
    ]);
    let settings = ConntrackSettings {
        max_per_core: Some(32_768),
        min: Some(131_072),
        tcp_timeout_established: Some(Duration::from_secs(86_400)),
        tcp_timeout_close_wait: Some(Duration::from_secs(3_600)),
        udp_timeout: Some(Duration::ZERO),
        ..ConntrackSettings::default()
    };
    let failures = write_all(&settings, 2, root.path(), root.path());
    assert_eq!(number(&root, "net/netfilter/nf_conntrack_max"), 131_072);
    assert_eq!(number(&root, "module/nf_conntrack/parameters/hashsize"), 32_768);
    let established = "net/netfilter/nf_conntrack_tcp_timeout_established";
    assert_eq!(number(&root, established), 86_400);
    assert_eq!(number(&root, "net/netfilter/nf_conntrack_udp_timeout"), 30);
    let failed: Vec<_> = failures.iter().map(|(path, _)| path.clone()).collect();
    let close_wait = root
        .path()
        .join("net/netfilter/nf_conntrack_tcp_timeout_close_wait");
    assert_eq!(failed, [close_wait]);
}
