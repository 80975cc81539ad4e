use super::*;

#[test]
fn names_have_the_meaning_of_the_specification() {
    for (name, meaning) in [
        (&b"file"[..], Name::Ordinary),
        (b"wh.file", Name::Ordinary),
        (b".wh.file", Name::Whiteout(b"file")),
        (b".wh..hidden", Name::Whiteout(b".hidden")),
        (b".wh..wh..opq", Name::Opaque),
        (b".wh..wh.plnk", Name::Reserved),
        (b".wh.", Name::Invalid),
        (b".wh..", Name::Invalid),
        (b".wh...", Name::Invalid),
    ] {
        assert_eq!(Name::of(name), meaning, "{}", name.escape_ascii());
    }
}
