use super::*;

#[test]
fn selects_the_first_protocol_of_the_client() {
    let client = ["v9.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"];
    assert_eq!(
        negotiate(&client, &REMOTE_COMMAND_SPDY),
        Some("v3.channel.k8s.io")
    );
    assert_eq!(negotiate(&["other"], &REMOTE_COMMAND_SPDY), None);
}

#[test]
fn protocol_version_determines_encoding_status_and_resize() {
    let features = |name| {
        let protocol = CommandProtocol::of(name);
        (protocol.encoding, protocol.has_status, protocol.has_resize)
    };
    assert_eq!(features("v5.channel.k8s.io"), (Encoding::Binary, true, true));
    assert_eq!(features("v3.channel.k8s.io"), (Encoding::Binary, false, true));
    assert_eq!(features("channel.k8s.io"), (Encoding::Binary, false, false));
    assert_eq!(
        features("v4.base64.channel.k8s.io"),
        (Encoding::Base64, true, true)
    );
}

#[test]
fn parses_sizes_and_ignores_invalid_ones() {
    let size = TerminalSize::parse(br#"{"Width":120,"Height":40}"#);
    assert_eq!(
        size,
        Some(TerminalSize {
            width: 120,
            height: 40
        })
    );
    for invalid in [
        "",
        "{}",
        r#"{"Width":70000,"Height":1}"#,
        r#"{"Width":-1,"Height":1}"#,
    ] {
        assert_eq!(TerminalSize::parse(invalid.as_bytes()), None, "{invalid}");
    }
}
