//! Rules of the source tree: crate edges, file circles, sizes, words, pages and the table of features.
//!
//! CONTRIBUTING.md states the rules. A failure lists each violation with its file.

mod circles;
mod dependencies;
mod edges;
mod features;
mod module_roots;
mod pages;
mod paths;
mod sizes;
mod sources;
mod words;

/// Fails with all violations at once, one per line.
fn assert_none(rule: &str, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{rule}: {} violations\n{}",
        violations.len(),
        violations.join("\n")
    );
}
