//! The page of the findings equals the documentation of the rules.

use std::fs;
use std::path::Path;

use explain::{Code, documentation, documentation_of, page};

/// Environment variable that writes the page.
const WRITE: &str = "PORTOLAN_WRITE_PAGES";

#[test]
fn findings_page_equals_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, page()).expect("a writable page");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/findings.md differs: {WRITE}=1 cargo test -p explain writes it"
    );
}

#[test]
fn documentation_has_all_sections() {
    let mut before = Code(0);
    for entry in documentation() {
        assert!(entry.code > before, "{} is out of order", entry.code);
        before = entry.code;
        assert!(
            !entry.title.is_empty() && !entry.title.ends_with('.'),
            "{}: {}",
            entry.code,
            entry.title
        );
        for section in ["\n## Why it matters\n", "\n## Remedy\n", "\n## Example\n"] {
            assert!(
                entry.text.contains(section),
                "{}: no section {section:?}",
                entry.code
            );
        }
        assert_eq!(documentation_of(entry.code), Some(entry));
    }
}

#[test]
fn codes_are_read_in_any_form() {
    for text in ["PTL-0002", "ptl-2", "2", " 0002 "] {
        assert_eq!(text.parse(), Ok(Code(2)), "{text}");
    }
    for text in ["", "PTL-", "PTL-x", "+2", "99999"] {
        assert!(text.parse::<Code>().is_err(), "{text}");
    }
}
