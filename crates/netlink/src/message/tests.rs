use super::*;
use proptest::prelude::*;

#[test]
fn written_messages_read_back() {
    let mut writer = Writer::default();
    writer
        .begin(7, libc::NLM_F_REQUEST, 1)
        .fixed(&[1, 2, 3])
        .text(4, "abc");
    let nest = writer.nest(5);
    writer.u32_be(1, 0x0102_0304).end(nest);
    writer.begin(8, 0, 2).add_flags(libc::NLM_F_ACK).u32(1, 9);
    let bytes = writer.finish().to_vec();

    let read: Vec<Message<'_>> = messages(&bytes).collect();
    assert_eq!(read.len(), 2);
    assert_eq!((read[0].kind, read[0].sequence), (7, 1));
    assert_eq!(&read[0].payload[..4], &[1, 2, 3, 0]);
    let attributes: Vec<Attribute<'_>> = read[0].attributes(3).collect();
    assert_eq!(attributes[0].text(), Some("abc"));
    assert_eq!(attributes[1].kind, 5);
    assert_eq!(
        attributes[1]
            .nested()
            .next()
            .and_then(|attribute| attribute.u32_be()),
        Some(0x0102_0304)
    );
    assert_eq!(read[1].flags, libc::NLM_F_ACK as u16);
    assert_eq!(
        read[1].attributes(0).next().and_then(|attribute| attribute.u32()),
        Some(9)
    );
}

#[test]
fn overlong_length_ends_iteration() {
    assert_eq!(
        messages(&[40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).count(),
        0
    );
    assert_eq!(messages(&[3; 16]).count(), 0);
    assert_eq!(attributes(&[2, 0, 1, 0, 9, 9]).count(), 0);
    assert_eq!(attributes(&[9, 0, 1, 0, 9, 9, 9, 9]).count(), 0);
    assert_eq!(attributes(&[5, 0, 1, 0, 9]).count(), 1);
}

proptest! {
    #[test]
    fn arbitrary_bytes_end_iteration(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let mut total = 0;
        for message in messages(&bytes) {
            for attribute in message.attributes(4) {
                total += attribute.value.len() + attribute.nested().map(|inner| inner.value.len()).sum::<usize>();
                prop_assert!(attribute.text().is_none_or(|text| text.len() <= attribute.value.len()));
            }
        }
        prop_assert!(total <= 2 * bytes.len());
    }
}
