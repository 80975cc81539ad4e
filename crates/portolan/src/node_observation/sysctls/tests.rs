use super::*;

#[test]
fn parameters_of_the_host_and_of_links_are_read() {
    let root = tempfile::tempdir().expect("a directory");
    let write = |path: &str, value: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, value).expect("a file");
    };
    write("net/ipv4/ip_forward", "0\n");
    write("net/ipv4/ip_local_port_range", "32768\t60999\n");
    write("net/ipv4/conf/eth0.5/rp_filter", "1\n");
    let links = ["eth0.5".to_owned(), "gone".to_owned()];
    let found = read_below(root.path(), &links);
    let expected = [
        ("net.ipv4.conf.eth0/5.rp_filter", "1"),
        ("net.ipv4.ip_forward", "0"),
        ("net.ipv4.ip_local_port_range", "32768\t60999"),
    ];
    let expected: BTreeMap<String, String> = expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(local_port_range(&found), Some([32_768, 60_999]));
    assert_eq!(reserved_ports(&found), None);
}

#[test]
fn reserved_ports_are_ranges() {
    let with = |value: &str| {
        let name = "net.ipv4.ip_local_reserved_ports".to_owned();
        reserved_ports(&BTreeMap::from([(name, value.to_owned())]))
    };
    assert_eq!(with(""), Some(Vec::new()));
    assert_eq!(
        with("8080,30000-32767"),
        Some(vec![[8_080, 8_080], [30_000, 32_767]])
    );
    for value in ["x", "1-", "70000", "1-2-3"] {
        assert_eq!(with(value), None, "{value}");
    }
}

// Recorded; most columns are left out.
const NETSTAT: &str = "TcpExt: SyncookiesSent IPReversePathFilter ListenOverflows ListenDrops
TcpExt: 0 17 3 4
IpExt: InNoRoutes InOctets
IpExt: 2 1834021
";

#[test]
fn counters_have_the_names_of_their_groups() {
    let counters = parse_counters(NETSTAT);
    assert_eq!(counters.get("TcpExt.IPReversePathFilter"), Some(&17));
    assert_eq!(counters.get("IpExt.InNoRoutes"), Some(&2));
    assert_eq!(counters.len(), 4);
    for text in [
        "",
        "TcpExt:",
        "a b\nc d",
        "TcpExt: IPReversePathFilter\nTcpExt: x\n",
        "A: b\nC: 1",
    ] {
        assert!(parse_counters(text).is_empty(), "{text}");
    }
}

#[test]
fn virtual_servers_are_counted() {
    let text = "IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> C0A8000B:192B      Masq    1      0          0
UDP  0A60000A:0035 rr
";
    assert_eq!(count_ipvs_services(text), 2);
    assert_eq!(count_ipvs_services(""), 0);
}
