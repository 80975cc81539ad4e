use super::printable;

#[test]
fn control_characters_are_escaped() {
    assert_eq!(printable("a\u{1b}[2Jb\nc\u{9b}"), "a\\u{1b}[2Jb\\nc\\u{9b}");
    assert_eq!(printable("Straße 1"), "Straße 1");
}
