use std::collections::HashSet;

use super::*;

#[test]
fn randomizes_case_only() {
    let identifiers = Identifiers::default();
    let name = Name::from_text("a-1.example.com").expect("a name");
    let spellings: HashSet<Vec<u8>> = (0..200)
        .map(|_| {
            let spelled = identifiers.randomize_case(&name);
            assert_eq!(spelled.to_lower(), name);
            spelled.as_wire().to_vec()
        })
        .collect();
    assert!(
        spellings.len() > 100,
        "{} spellings of 11 letters",
        spellings.len()
    );
}

#[test]
fn identifiers_take_all_of_their_range() {
    let identifiers = Identifiers::default();
    let seen: HashSet<u16> = (0..1_000).map(|_| identifiers.next()).collect();
    assert!(seen.len() > 900, "{} identifiers of 1000 questions", seen.len());
    assert!(seen.iter().any(|id| *id < 0x2000) && seen.iter().any(|id| *id > 0xE000));
}
