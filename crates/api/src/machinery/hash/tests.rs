use super::{fnv1a_32, fnv1a_64};

#[test]
fn hashes_equal_the_published_test_vectors() {
    for (text, expected_32, expected_64) in [
        ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
        ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
        ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
    ] {
        assert_eq!(fnv1a_32(text.bytes()), expected_32, "{text:?}");
        assert_eq!(fnv1a_64(text.bytes()), expected_64, "{text:?}");
    }
}
