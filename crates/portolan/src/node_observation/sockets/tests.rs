use super::*;

// Recorded on a host with byte order little endian.
const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 20481 1 0000000000000000 100 0 0 10 0
   1: 0C01F40A:0050 0501F40A:9C40 01 00000000:00000000 02:000A7214 00000000     0        0 20513 2 0000000000000000 20 4 30 10 -1
";
const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17200 1 0000000000000000 100 0 0 10 0
   1: B80D0120000000000000000001000000:01BB 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17201 1 0000000000000000 100 0 0 10 0
";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  423: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 15107 2 0000000000000000 0
  424: 0100007F:A1B2 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 15108 2 0000000000000000 0
";
const SCTP: &str = " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS
ffff88007a6d5c00 ffff880079b9d0c0 2   10  29   3868      0 21342 192.0.2.1 10.0.0.1
";

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("sctp")).expect("a directory");
    for (name, text) in [("tcp", TCP), ("tcp6", TCP6), ("udp", UDP), ("sctp/eps", SCTP)] {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

#[test]
#[cfg(target_endian = "little")]
fn listeners_of_all_protocols_are_read() {
    let directory = directory();
    let (sockets, is_truncated) = read(directory.path(), 100, Socket::is_listener).expect("sockets");
    assert!(!is_truncated);
    let found: Vec<(String, String, u64)> = sockets
        .iter()
        .map(|socket| {
            (
                socket.protocol.to_string(),
                socket.local.to_string(),
                socket.inode,
            )
        })
        .collect();
    let expected = [
        ("TCP", "127.0.0.1:8080", 20_481),
        ("TCP", "[::]:22", 17_200),
        ("TCP", "[2001:db8::1]:443", 17_201),
        ("UDP", "0.0.0.0:5353", 15_107),
        ("SCTP", "192.0.2.1:3868", 21_342),
        ("SCTP", "10.0.0.1:3868", 21_342),
    ];
    let expected = expected.map(|(protocol, local, inode)| (protocol.to_owned(), local.to_owned(), inode));
    assert_eq!(found, expected);
}

#[test]
#[cfg(target_endian = "little")]
fn connections_have_peers_and_states() {
    let socket = parse(TransportProtocol::Tcp, TCP.lines().nth(2).expect("a line")).expect("a socket");
    assert_eq!(socket.remote.to_string(), "10.244.1.5:40000");
    assert_eq!(socket.state.name(), "established");
    assert_eq!(SocketState(0).name(), "unknown");
    assert_eq!(SocketState(255).name(), "unknown");
}

#[test]
fn lists_are_bounded() {
    let directory = directory();
    let (sockets, is_truncated) = read(directory.path(), 2, |_| true).expect("sockets");
    assert_eq!((sockets.len(), is_truncated), (2, true));
}

#[test]
fn damaged_lines_are_skipped() {
    let long = "0".repeat(10_000);
    for line in [
        "",
        "0:",
        "0: x y z",
        "0: 0100007F:1F90 00000000:0000 0A",
        "0: é:1 é:1 0A 1 2 3 4 5 6",
        &long,
    ] {
        assert_eq!(parse(TransportProtocol::Tcp, line), None, "{line}");
        assert!(parse_sctp(line).is_empty());
    }
    for address in ["", ":", "0:0", "00000000:10000", "ééééééé:0", "éé\u{e9}\u{e9}:1"] {
        assert_eq!(parse_address(address), None, "{address}");
    }
    let absent = tempfile::tempdir().expect("a directory");
    assert_eq!(
        read(absent.path(), 1, |_| true).expect("no sockets"),
        (Vec::new(), false)
    );
}
