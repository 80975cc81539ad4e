use super::*;

#[test]
fn uuids_take_no_text() {
    for text in [
        "0b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4e5",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ] {
        let uid = Uid::new(text);
        assert!(matches!(uid.0, Form::Uuid(_)), "{text}");
        assert_eq!(uid.text(), text);
    }
}

#[test]
fn other_texts_are_kept() {
    for text in [
        "",
        "u",
        "0B4F5C1E-7D0A-4C39-9F2E-00A1B2C3D4E5",
        "0b4f5c1e7-d0a-4c39-9f2e-00a1b2c3d4e5",
        "+b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4e5",
        "0b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4eé",
        "0b4f5c1e7d0a4c399f2e00a1b2c3d4e5----",
    ] {
        let uid = Uid::new(text);
        assert!(matches!(uid.0, Form::Text(_)), "{text}");
        assert_eq!(uid.text(), text);
    }
}

#[test]
fn uids_of_different_texts_differ() {
    let uid = Uid::new("0b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4e5");
    assert_eq!(uid, Uid::new("0b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4e5"));
    assert_ne!(uid, Uid::new("0b4f5c1e-7d0a-4c39-9f2e-00a1b2c3d4e6"));
    assert_ne!(uid, Uid::new("0B4F5C1E-7D0A-4C39-9F2E-00A1B2C3D4E5"));
}
