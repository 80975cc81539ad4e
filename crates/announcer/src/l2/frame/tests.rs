use proptest::prelude::*;

use super::*;

const OWN: HardwareAddress = [2, 0, 0, 0, 0, 1];
const CLIENT: HardwareAddress = [2, 0, 0, 0, 0, 9];

/// A request as Linux sends it.
fn request() -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(BROADCAST);
    frame.extend(CLIENT);
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(CLIENT);
    frame.extend([192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 192, 0, 2, 200]);
    frame
}

/// A solicitation for 2001:db8::c8, with the client's hardware address if it has an address of its own.
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
fn arp_requests_are_answered_to_who_asked() {
    let question = Question::read(&request()).unwrap();
    assert_eq!(question.target(), "192.0.2.200".parse::<IpAddr>().unwrap());
    let answer = question.answer(OWN);
    let mut expected = Vec::new();
    expected.extend(CLIENT);
    expected.extend(OWN);
    expected.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
    expected.extend(OWN);
    expected.extend([192, 0, 2, 200]);
    expected.extend(CLIENT);
    expected.extend([192, 0, 2, 9]);
    assert_eq!(answer, expected);
    assert_eq!(Question::read(&answer), None, "an answer is no question");
}

#[test]
fn what_is_no_question_is_passed_over() {
    let changed = |at: usize, byte: u8| {
        let mut frame = request();
        frame[at] = byte;
        Question::read(&frame)
    };
    assert!(changed(60 - 20, 200).is_some(), "another target");
    for (at, byte) in [(12, 0x88), (15, 6), (16, 9), (18, 8), (19, 16), (21, 2), (22, 3)] {
        assert_eq!(changed(at, byte), None, "byte {at}");
    }
    let mut own = request();
    own[28..32].copy_from_slice(&[192, 0, 2, 200]);
    assert_eq!(Question::read(&own), None, "an announcement");
    assert_eq!(
        Question::read(&announcement(OWN, "192.0.2.200".parse().unwrap())[0]),
        None
    );
}

#[test]
fn solicitations_are_answered_with_override() {
    let client: Ipv6Addr = "fe80::9".parse().unwrap();
    let question = Question::read(&solicitation(client)).unwrap();
    assert_eq!(question.target(), "2001:db8::c8".parse::<IpAddr>().unwrap());
    let answer = question.answer(OWN);
    assert_eq!(answer[..6], CLIENT);
    assert_eq!(answer[38..54], client.octets());
    let part = &answer[54..];
    assert_eq!((part[0], part[4]), (ADVERTISEMENT, SOLICITED | OVERRIDE));
    assert_eq!(checksum("2001:db8::c8".parse().unwrap(), client, part), 0);
    assert_eq!(part[24..], [2, 1, 2, 0, 0, 0, 0, 1]);
    // Who looks for a duplicate is answered by all being told (RFC 4862, 5.4.3).
    let question = Question::read(&solicitation(Ipv6Addr::UNSPECIFIED)).unwrap();
    let answer = question.answer(OWN);
    assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((answer[54], answer[58]), (ADVERTISEMENT, OVERRIDE));
    assert_eq!(answer, announcement(OWN, "2001:db8::c8".parse().unwrap())[0]);
}

#[test]
fn solicitations_that_a_router_passed_on_or_that_are_broken_are_passed_over() {
    let whole = solicitation("fe80::9".parse().unwrap());
    for at in [14, 20, 21, 54, 55, 56, 62, 79] {
        let mut frame = whole.clone();
        frame[at] ^= 0x81;
        assert_eq!(Question::read(&frame), None, "byte {at}");
    }
    for end in 0..whole.len() {
        assert_eq!(Question::read(&whole[..end]), None, "cut at {end}");
    }
    let mut padded = whole;
    padded.extend([0; 10]);
    assert!(Question::read(&padded).is_some());
}

proptest! {
    #[test]
    fn whatever_comes_is_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), is_ipv6: bool) {
        if let Some(kind) = bytes.get_mut(12..14) {
            kind.copy_from_slice(if is_ipv6 { &TYPE_IPV6 } else { &TYPE_ARP });
        }
        if let Some(question) = Question::read(&bytes) {
            prop_assert_eq!(Question::read(&question.answer(OWN)), None);
        }
    }
}
