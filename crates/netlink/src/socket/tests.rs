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
