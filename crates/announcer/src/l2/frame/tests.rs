use proptest::prelude::*;

use super::*;

const OWN: HardwareAddress = [2, 0, 0, 0, 0, 1];
const CLIENT: HardwareAddress = [2, 0, 0, 0, 0, 9];

/// ARP request as Linux sends it.
fn request() -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(BROADCAST);
    frame.extend(CLIENT);
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(CLIENT);
    frame.extend([192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 192, 0, 2, 200]);
    frame
}

/// Solicitation for 2001:db8::c8, with a source link-layer address option unless the source is unspecified.
fn solicitation(source: Ipv6Addr) -> Vec<u8> {
    let target: Ipv6Addr = "2001:db8::c8".parse().unwrap();
    let group = solicited_node(target);
    let mut part = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    part.extend(target.octets());
    if !source.is_unspecified() {
        part.extend([OPTION_SOURCE, 1]);
        part.extend(CLIENT);
    }
    let sum = checksum(source, group, &part);
    part[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Vec::new();
    frame.extend(multicast(group));
    frame.extend(CLIENT);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, part.len() as u8, 58, 255]);
    frame.extend(source.octets());
    frame.extend(group.octets());
    frame.extend(part);
    frame
}

#[test]
fn replies_to_arp_requests() {
    let resolution = ResolutionRequest::read(&request()).unwrap();
    assert_eq!(resolution.target(), "192.0.2.200".parse::<IpAddr>().unwrap());
    let reply = resolution.reply(OWN);
    let mut expected = Vec::new();
    expected.extend(CLIENT);
    expected.extend(OWN);
    expected.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
    expected.extend(OWN);
    expected.extend([192, 0, 2, 200]);
    expected.extend(CLIENT);
    expected.extend([192, 0, 2, 9]);
    assert_eq!(reply, expected);
    assert_eq!(ResolutionRequest::read(&reply), None, "a reply is not a request");
}

#[test]
fn ignores_other_arp_frames() {
    let changed = |at: usize, byte: u8| {
        let mut frame = request();
        frame[at] = byte;
        ResolutionRequest::read(&frame)
    };
    assert!(changed(60 - 20, 200).is_some(), "another target");
    for (at, byte) in [(12, 0x88), (15, 6), (16, 9), (18, 8), (19, 16), (21, 2), (22, 3)] {
        assert_eq!(changed(at, byte), None, "byte {at}");
    }
    let mut own = request();
    own[28..32].copy_from_slice(&[192, 0, 2, 200]);
    assert_eq!(ResolutionRequest::read(&own), None, "an announcement");
    assert_eq!(
        ResolutionRequest::read(&announcement(OWN, "192.0.2.200".parse().unwrap())[0]),
        None
    );
}

#[test]
fn replies_to_solicitations_with_override() {
    let client: Ipv6Addr = "fe80::9".parse().unwrap();
    let resolution = ResolutionRequest::read(&solicitation(client)).unwrap();
    assert_eq!(resolution.target(), "2001:db8::c8".parse::<IpAddr>().unwrap());
    let reply = resolution.reply(OWN);
    assert_eq!(reply[..6], CLIENT);
    assert_eq!(reply[38..54], client.octets());
    let part = &reply[54..];
    assert_eq!((part[0], part[4]), (ADVERTISEMENT, SOLICITED | OVERRIDE));
    assert_eq!(checksum("2001:db8::c8".parse().unwrap(), client, part), 0);
    assert_eq!(part[24..], [2, 1, 2, 0, 0, 0, 0, 1]);
    // Duplicate address detection: the reply goes to all nodes (RFC 4862, section 5.4.3).
    let resolution = ResolutionRequest::read(&solicitation(Ipv6Addr::UNSPECIFIED)).unwrap();
    let reply = resolution.reply(OWN);
    assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((reply[54], reply[58]), (ADVERTISEMENT, OVERRIDE));
    assert_eq!(reply, announcement(OWN, "2001:db8::c8".parse().unwrap())[0]);
}

#[test]
fn requests_of_this_host_are_answered() {
    let (own, target): (Ipv4Addr, Ipv4Addr) = ("192.0.2.1".parse().unwrap(), "192.0.2.9".parse().unwrap());
    let request = arp_request(OWN, own, target);
    assert_eq!(read_arp_reply(&request), None);
    let resolution = ResolutionRequest::read(&request).expect("a request");
    assert_eq!(resolution.target(), IpAddr::V4(target));
    let other = [2, 0, 0, 0, 0, 9];
    let reply = resolution.reply(other);
    assert_eq!(read_arp_reply(&reply), Some((target, other)));
    for end in 0..reply.len() {
        assert_eq!(read_arp_reply(&reply[..end]), None, "cut at {end}");
    }
}

#[test]
fn ignores_routed_and_malformed_solicitations() {
    let whole = solicitation("fe80::9".parse().unwrap());
    for at in [14, 20, 21, 54, 55, 56, 62, 79] {
        let mut frame = whole.clone();
        frame[at] ^= 0x81;
        assert_eq!(ResolutionRequest::read(&frame), None, "byte {at}");
    }
    for end in 0..whole.len() {
        assert_eq!(ResolutionRequest::read(&whole[..end]), None, "cut at {end}");
    }
    let mut padded = whole;
    padded.extend([0; 10]);
    assert!(ResolutionRequest::read(&padded).is_some());
}

proptest! {
    #[test]
    fn decodes_arbitrary_frames_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), is_ipv6: bool) {
        if let Some(kind) = bytes.get_mut(12..14) {
            kind.copy_from_slice(if is_ipv6 { &TYPE_IPV6 } else { &TYPE_ARP });
        }
        if let Some(resolution) = ResolutionRequest::read(&bytes) {
            prop_assert_eq!(ResolutionRequest::read(&resolution.reply(OWN)), None);
        }
    }
}
