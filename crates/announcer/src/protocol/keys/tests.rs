use super::*;
use crate::election::capabilities::NodeCapabilities;
use crate::protocol::message::Timestamp;

const SECRETS: [(&str, u8); 3] = [("a", 1), ("b", 2), ("c", 3)];

fn secret(number: u8) -> SecretKey {
    SecretKey::new([number; KEY_BYTES])
}

fn address(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 7947).into()
}

fn member(number: u8) -> Member {
    Member {
        address: address(number),
        process: Some(Process {
            incarnation: u64::from(number),
            public_key: secret(number).public(),
        }),
    }
}

fn record() -> Record {
    let mut record = Record::founded_by("a".into(), member(1), "cluster".to_owned());
    let members = SECRETS.map(|(name, number)| (NodeName::from(name), member(number)));
    record.members.extend(members);
    record
}

fn keyring(name: &str, number: u8, record: &Record) -> Keyring {
    let mut keyring = Keyring::new(name.into(), u64::from(number), secret(number));
    keyring.update(Some(record));
    keyring
}

fn message(from: &str, incarnation: u8, to: &str) -> Message {
    Message {
        from: from.into(),
        to: to.into(),
        incarnation: u64::from(incarnation),
        timestamp: Timestamp(1),
        epoch: 1,
        min_epoch: 1,
        is_quorate: true,
        is_leaving: false,
        echo: None,
        lease_generation: None,
        entries: Vec::new(),
        capabilities: NodeCapabilities::default(),
        link_addresses: Vec::new(),
    }
}

#[test]
fn message_authenticates_for_its_receiver_only() {
    let record = record();
    let [a, b, c] = SECRETS.map(|(name, number)| keyring(name, number, &record));
    let sent = message("a", 1, "b");
    let bytes = a.seal(&sent).unwrap();
    assert_eq!(b.open(address(1), &bytes), Ok(sent));
    assert_eq!(c.open(address(1), &bytes), Err(MessageError::Authentication));
    assert_eq!(
        a.open(address(1), &bytes),
        Err(MessageError::UnknownSender),
        "own message"
    );
    let reply = message("b", 2, "a");
    assert_eq!(a.open(address(2), &b.seal(&reply).unwrap()), Ok(reply));
}

#[test]
fn rejects_messages_forged_by_another_member() {
    let record = record();
    let [_, b, c] = SECRETS.map(|(name, number)| keyring(name, number, &record));
    let forged = c.seal(&message("a", 1, "b")).unwrap();
    for from in [1, 3] {
        assert!(b.open(address(from), &forged).is_err());
    }
    // The key of c with another incarnation.
    let forged = c.seal(&message("c", 9, "b")).unwrap();
    assert_eq!(b.open(address(3), &forged), Err(MessageError::Authentication));
}

#[test]
fn rejects_messages_of_readers_of_the_member_list() {
    let record = record();
    let b = keyring("b", 2, &record);
    let mut reader = Keyring::new("a".into(), 1, secret(77));
    reader.update(Some(&record));
    let forged = reader.seal(&message("a", 1, "b")).unwrap();
    assert_eq!(b.open(address(1), &forged), Err(MessageError::Authentication));
}

#[test]
fn rejects_wrong_source_addresses() {
    let mut record = record();
    record.members.get_mut("c").unwrap().address = address(1);
    let (a, b) = (keyring("a", 1, &record), keyring("b", 2, &record));
    let sent = message("a", 1, "b");
    let bytes = a.seal(&sent).unwrap();
    assert_eq!(b.open(address(1), &bytes), Ok(sent));
    for found in [address(3), SocketAddr::new(address(1).ip(), 7948)] {
        let recorded = address(1);
        assert_eq!(
            b.open(found, &bytes),
            Err(MessageError::WrongSource { recorded, found })
        );
    }
}

#[test]
fn rejects_messages_from_and_to_earlier_processes() {
    let before = record();
    let (a, b) = (keyring("a", 1, &before), keyring("b", 2, &before));
    let bytes = a.seal(&message("a", 1, "b")).unwrap();
    // New process of the sender: other key pair, or other incarnation only.
    for (incarnation, number) in [(11, 11), (11, 1), (1, 11)] {
        let mut after = before.clone();
        let process = Process {
            incarnation,
            public_key: secret(number).public(),
        };
        after.members.get_mut("a").unwrap().process = Some(process);
        let b = keyring("b", 2, &after);
        assert_eq!(b.open(address(1), &bytes), Err(MessageError::Authentication));
    }
    // New process of the receiver.
    assert!(b.open(address(1), &bytes).is_ok());
    let receiver = keyring("b", 22, &before);
    assert_eq!(
        receiver.open(address(1), &bytes),
        Err(MessageError::Authentication)
    );
    let mut same_secret = Keyring::new("b".into(), 22, secret(2));
    same_secret.update(Some(&before));
    assert_eq!(
        same_secret.open(address(1), &bytes),
        Err(MessageError::Authentication)
    );
}

#[test]
fn clusters_have_different_keys() {
    let here = record();
    let mut there = here.clone();
    there.cluster = "another".to_owned();
    let bytes = keyring("a", 1, &there).seal(&message("a", 1, "b")).unwrap();
    assert_eq!(
        keyring("b", 2, &here).open(address(1), &bytes),
        Err(MessageError::Authentication)
    );
}

/// All points of low order (RFC 7748, section 6.1): the shared secret is public.
#[test]
fn derives_no_key_from_public_keys_of_low_order() {
    let mut one = [0; KEY_BYTES];
    one[0] = 1;
    // p - 1, p and p + 1, of p = 2^255 - 19.
    let around_p = [0xec, 0xed, 0xee].map(|first| {
        let mut bytes = [0xff; KEY_BYTES];
        (bytes[0], bytes[KEY_BYTES - 1]) = (first, 0x7f);
        bytes
    });
    for bytes in around_p.into_iter().chain([[0; KEY_BYTES], one]) {
        let mut record = record();
        let process = Process {
            incarnation: 2,
            public_key: PublicKey(bytes),
        };
        record.members.get_mut("b").unwrap().process = Some(process);
        let a = keyring("a", 1, &record);
        assert_eq!(a.seal(&message("a", 1, "b")), None, "{bytes:02x?}");
    }
}

#[test]
fn derives_no_key_for_removed_members_or_members_without_key() {
    let mut record = record();
    record.members.get_mut("b").unwrap().process = None;
    let mut a = keyring("a", 1, &record);
    assert_eq!(a.seal(&message("a", 1, "b")), None);
    assert!(a.seal(&message("a", 1, "c")).is_some());
    record.members.remove("c");
    a.update(Some(&record));
    assert_eq!(a.seal(&message("a", 1, "c")), None);
}
