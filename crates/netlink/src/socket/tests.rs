use super::*;
use crate::message::Writer;
use proptest::prelude::*;

#[test]
fn dumps_links_of_namespace() {
    let mut socket = Socket::open(Subsystem::Route).unwrap();
    let sequence = socket.next_sequence();
    let mut writer = Writer::default();
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
    writer.begin(libc::RTM_GETLINK, flags, sequence).fixed(&[0; 16]);
    let mut links = 0;
    socket
        .exchange(writer.finish(), sequence, |message| {
            assert_eq!(message.kind, libc::RTM_NEWLINK);
            links += 1;
        })
        .unwrap();
    assert!(links >= 1, "every namespace has a loopback link");
}

#[test]
fn refusal_carries_errno() {
    let mut socket = Socket::open(Subsystem::Route).unwrap();
    let sequence = socket.next_sequence();
    let mut writer = Writer::default();
    let mut link = [0; 16];
    link[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    writer.begin(libc::RTM_GETLINK, flags, sequence).fixed(&link);
    let refused = socket.exchange(writer.finish(), sequence, |_| {}).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENODEV));
}

proptest! {
    #[test]
    fn arbitrary_acknowledgements_decode_without_panic(flags in any::<u16>(), payload in proptest::collection::vec(any::<u8>(), 0..64)) {
        let message = Message { kind: libc::NLMSG_ERROR as u16, flags, sequence: 1, payload: &payload };
        prop_assert_eq!(Acknowledgement::read(&message).is_some(), payload.len() >= 4);
    }
}

#[test]
fn interrupted_dump_is_repeated() {
    let mut attempts = 0;
    let dumped = complete_dump(|| -> io::Result<(usize, bool)> {
        attempts += 1;
        Ok((attempts, attempts < DUMP_ATTEMPTS_MAX))
    });
    assert_eq!(dumped.unwrap(), Some(DUMP_ATTEMPTS_MAX));
}

#[test]
fn dump_that_is_always_interrupted_has_no_entries() {
    let mut attempts = 0;
    let dumped = complete_dump(|| -> io::Result<(usize, bool)> {
        attempts += 1;
        Ok((attempts, true))
    });
    assert_eq!(dumped.unwrap(), None);
    assert_eq!(attempts, DUMP_ATTEMPTS_MAX);
}

#[test]
fn refused_dump_is_not_repeated() {
    let mut attempts = 0;
    let dumped = complete_dump(|| -> io::Result<((), bool)> {
        attempts += 1;
        Err(io::Error::from_raw_os_error(libc::EPERM))
    });
    assert_eq!(dumped.unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert_eq!(attempts, 1);
}
