use super::*;

#[test]
fn documents_end_at_the_marker_of_the_next_one() {
    for (stream, expected) in [
        ("a: 1\n", "a: 1\n"),
        ("a: 1\n---\nb: 2\n", "a: 1\n"),
        ("a: 1\n---", "a: 1\n"),
        ("a: 1\r\n---\r\nb: 2\r\n", "a: 1\r\n"),
        ("a: 1\n...\nb: 2\n", "a: 1\n"),
        ("---\na: 1\n--- # next\nb: 2\n", "---\na: 1\n"),
        ("# x\n\n%YAML 1.1\n---\na: 1\n", "# x\n\n%YAML 1.1\n---\na: 1\n"),
        ("---\n---\na: 1\n", "---\n"),
        ("\u{feff}# x\n---\na: 1\n---\n", "\u{feff}# x\n---\na: 1\n"),
        ("a: ---\nb: |\n  ---\n---x: 1\n", "a: ---\nb: |\n  ---\n---x: 1\n"),
        ("", ""),
    ] {
        assert_eq!(
            first_document(stream.as_bytes()),
            expected.as_bytes(),
            "{stream:?}"
        );
    }
}
