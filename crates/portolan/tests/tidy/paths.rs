//! Paths that a source file names: `use` trees and paths in expressions.

/// Returns each path of the file that begins with `crate`, `super` or `self`, as segments. Comments are skipped.
pub(crate) fn named_paths(text: &str) -> Vec<Vec<String>> {
    let code = without_comments(text);
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let is_word_start = code[..at]
                .chars()
                .next_back()
                .is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != ':');
            if is_word_start {
                expand(&code[at..], &mut Vec::new(), &mut paths);
            }
        }
    }
    paths
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Reads one path or `use` tree at the start of the text. Returns the bytes that it takes.
fn expand(text: &str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    loop {
        let name = text[at..]
            .split(|character: char| !character.is_alphanumeric() && character != '_')
            .next()
            .unwrap_or_default();
        if name.is_empty() {
            break;
        }
        prefix.push(name.to_owned());
        at += name.len();
        if !text[at..].starts_with("::") {
            break;
        }
        at += 2;
        if text[at..].starts_with('{') {
            at += expand_group(&text[at..], prefix, paths);
            prefix.truncate(depth);
            return at;
        }
    }
    paths.push(prefix.clone());
    prefix.truncate(depth);
    at
}

/// Reads `{a, b::c}` at the start of the text. Returns the bytes that it takes.
fn expand_group(text: &str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let mut at = 1;
    while at < text.len() && !text[at..].starts_with('}') {
        let next = text[at..].chars().next().unwrap_or('}');
        if next.is_alphanumeric() || next == '_' {
            at += expand(&text[at..], prefix, paths);
        } else {
            at += next.len_utf8();
        }
    }
    at + 1
}

#[test]
fn use_trees_expand_to_their_paths() {
    let text = "use crate::a::{b, c::{D, e}};\nlet x = super::f::G::new(); // crate::comment\nfoo::crate::no";
    let joined = named_paths(text)
        .iter()
        .map(|path| path.join("::"))
        .collect::<Vec<_>>();
    assert_eq!(
        joined,
        [
            "crate::a::b",
            "crate::a::c::D",
            "crate::a::c::e",
            "super::f::G::new"
        ]
    );
}
