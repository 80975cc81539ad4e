use super::*;

// Recorded lines; the first is being opened, the second is open, the third is a former connection.
const TCP: &str = "  sl  local_address rem_address   st
   0: 0B00A8C0:9C40 0100A8C0:00B3 02 00000001:00000000 01:00000019 00000000     0        0 1 2 0000000000000000
   1: 0B00A8C0:00B3 0200A8C0:9C41 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0000000000000000
   2: 0B00A8C0:9C42 0200A8C0:00B3 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000
";

#[test]
#[cfg(target_endian = "little")]
fn peers_have_one_session_each() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("tcp"), TCP).expect("a file");
    let is_session = |socket: &Socket| STATES.contains(&socket.state.name());
    let (mut connections, _) = sockets::read(directory.path(), 10, is_session).expect("sockets");
    let again = Socket {
        remote: "192.168.0.2:179".parse().expect("an address"),
        ..connections[0]
    };
    connections.push(again);
    let found = sessions(&connections, |socket| Some(format!("bird{}", socket.inode)));
    let described: Vec<(String, &str, Option<&str>)> = found
        .iter()
        .map(|session| {
            (
                session.peer.to_string(),
                session.state.as_str(),
                session.program.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            ("192.168.0.1".to_owned(), "syn-sent", Some("bird1")),
            ("192.168.0.2".to_owned(), "established", Some("bird2")),
        ]
    );
}
