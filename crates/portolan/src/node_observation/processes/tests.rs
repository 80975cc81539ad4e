use super::*;

fn process(arguments: &[u8]) -> Process {
    Process {
        arguments: parse_arguments(arguments),
        ..Process::default()
    }
}

#[test]
fn flags_have_two_forms() {
    let process = process(
        b"/usr/local/bin/kube-proxy\0--config=/var/lib/a.conf\0--hostname-override\0node-a\0-v\x002\0",
    );
    assert_eq!(process.file_name(), "kube-proxy");
    assert_eq!(process.flag("config"), Some("/var/lib/a.conf"));
    assert_eq!(process.flag("hostname-override"), Some("node-a"));
    assert_eq!(process.flag("hostname"), None);
    assert_eq!(process.flag("v"), None);
    let process = self::process(b"portolan\0--masquerade-all\0--node-name=a\0--node-name=b\0");
    assert_eq!(process.flag("masquerade-all"), Some("true"));
    assert_eq!(process.flag("node-name"), Some("b"));
}

#[test]
fn arguments_of_any_bytes_are_read() {
    for bytes in [&b""[..], b"\0", b"\0\0", b"\xff\xfe\0--", b"a"] {
        let process = process(bytes);
        assert!(process.flag("a").is_none(), "{bytes:?}");
        assert!(process.file_name().len() <= 6);
    }
    assert!(parse_arguments(b"").is_empty(), "a thread of the kernel");
}

#[test]
fn namespace_links_yield_inode_numbers() {
    assert_eq!(namespace_inode("net:[4026531840]"), Some(4_026_531_840));
    for link in ["", "net:[", "net:[]", "mnt:[1]", "net:[x]"] {
        assert_eq!(namespace_inode(link), None, "{link}");
    }
}

#[test]
fn test_process_is_listed_in_its_namespace() {
    let processes = read_all().expect("processes");
    let own = processes.iter().find(|process| process.id == std::process::id());
    let own = own.expect("this process");
    assert_eq!(own.namespace, Some(own_namespace().expect("a namespace")));
    assert!(!own.arguments.is_empty() && own.directory("exe").starts_with("/proc"));
}
