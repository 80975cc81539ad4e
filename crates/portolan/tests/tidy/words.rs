//! Words that `docs/glossary.md` replaces, in identifiers and file names.

use std::collections::BTreeSet;
use std::fs;

use crate::assert_none;
use crate::sources::{root, rust_files};

/// Mark behind a banned word in the glossary.
const BANNED_MARK: char = '†';

/// Words of the glossary that carry the mark.
fn banned_words() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/glossary.md")).expect("docs/glossary.md");
    page.match_indices(BANNED_MARK)
        .filter_map(|(end, _)| {
            page[..end]
                .split([' ', '`', '|', ','])
                .next_back()
                .map(str::to_owned)
        })
        .filter(|word| !word.is_empty() && word.chars().all(char::is_alphabetic))
        .collect()
}

/// Words of an identifier in lower case: `LedTo` and `led_to` are `led`, `to`.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_lower = false;
    for character in identifier.chars() {
        if character == '_' || (character.is_uppercase() && is_lower) {
            words.push(String::new());
        }
        is_lower = character.is_lowercase();
        if character != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// Identifiers of a file: words outside of comments and string literals.
fn identifiers(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for (number, part) in code.split('"').enumerate() {
            if number % 2 == 0 {
                let names = part.split(|character: char| !character.is_alphanumeric() && character != '_');
                found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn identifiers_and_file_names_use_the_terms_of_the_glossary() {
    let banned = banned_words();
    assert!(banned.len() > 10, "the glossary marks banned words: {banned:?}");
    let mut violations = Vec::new();
    for source in ["crates", "bench"].iter().flat_map(|folder| rust_files(folder)) {
        let path = source.path.display();
        let stems = source
            .path
            .iter()
            .filter_map(|part| part.to_str()?.split('.').next());
        let mut names = identifiers(&source.text);
        names.extend(stems.map(str::to_owned));
        for name in names {
            if let Some(word) = words_of(&name).into_iter().find(|word| banned.contains(word)) {
                violations.push(format!("{path}: {name} ({word})"));
            }
        }
    }
    assert_none("banned words", &violations);
}

#[test]
fn identifiers_split_into_words() {
    assert_eq!(words_of("LedTo"), ["led", "to"]);
    assert_eq!(words_of("LED_TO"), ["led", "to"]);
    assert_eq!(words_of("misled"), ["misled"]);
}
