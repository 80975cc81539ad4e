//! Documentation of the codes.

use std::fmt::Write as _;

use crate::finding::Code;
use crate::rules::ALL;

/// Documentation of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Documentation {
    /// Code.
    pub code: Code,
    /// Title, a short sentence.
    pub title: &'static str,
    /// Text in Markdown: meaning, impact, remedy and example.
    pub text: &'static str,
}

/// Returns the documentation of all codes, in their order.
pub fn documentation() -> impl Iterator<Item = Documentation> {
    ALL.iter().map(|rule| {
        let (title, text) = rule
            .documentation
            .split_once('\n')
            .unwrap_or((rule.documentation, ""));
        Documentation {
            code: rule.code,
            title: title.trim_start_matches('#').trim(),
            text: text.trim(),
        }
    })
}

/// Returns the documentation of a code.
pub fn documentation_of(code: Code) -> Option<Documentation> {
    documentation().find(|entry| entry.code == code)
}

/// Returns the page with the documentation of all codes, in Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Findings\n\nThis page describes the findings that `portolan doctor` reports. `portolan explain CODE` prints the section of a code. The \
         table is an index; each section\nhas the cause, the effect, the remedy and an example. Codes are stable: a code keeps its meaning, and a \
         removed code is not used again.\n\n| Code | Finding |\n|---|---|\n",
    );
    let line = |page: &mut String, arguments: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        page.write_fmt(arguments).unwrap_or_default();
        page.push('\n');
    };
    for entry in documentation() {
        let anchor = entry.code.to_string().to_ascii_lowercase();
        line(
            &mut page,
            format_args!("| [{}](#{anchor}) | {} |", entry.code, entry.title),
        );
    }
    for entry in documentation() {
        let text = entry.text.replace("\n## ", "\n### ");
        line(
            &mut page,
            format_args!("\n## {}\n\n{}.\n\n{text}", entry.code, entry.title),
        );
    }
    page
}
