use super::*;

#[test]
fn decodes_the_close_signal() {
    let message = Bytes::from_static(&[255, 0]);
    assert_eq!(Encoding::Binary.decode(&message), Message::Closed(Stream::Input));
}

#[test]
fn ignores_unknown_channels_and_invalid_base64() {
    for message in [&b""[..], &[9, 1], &[255], &[255, 77]] {
        let message = Bytes::copy_from_slice(message);
        assert_eq!(Encoding::Binary.decode(&message), Message::Ignored);
    }
    let message = Bytes::from_static(b"0***");
    assert_eq!(Encoding::Base64.decode(&message), Message::Ignored);
}

#[test]
fn both_encodings_decode_their_messages() {
    for encoding in [Encoding::Binary, Encoding::Base64] {
        let message = encoding.encode(Stream::Output, b"a\0b");
        let expected = Message::Data(Stream::Output, Bytes::from_static(b"a\0b"));
        assert_eq!(encoding.decode(&message), expected);
    }
    assert_eq!(Encoding::Base64.encode(Stream::Error, b"hi"), "2aGk=");
}
