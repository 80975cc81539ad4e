//! The table of features: `docs/features.md`, which `tools/features` fills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::assert_none;
use crate::sources::{root, rust_files};

/// Page with the table.
const PAGE: &str = "docs/features.md";
/// Rows of the table.
const RULES: usize = 610;
/// Columns at the end of a row that name files below `crates/`.
const FILE_COLUMNS: usize = 2;

/// A row of the table.
struct Rule {
    /// Section of the id, such as `VAL`.
    section: String,
    /// Number in the section, from 1.
    number: usize,
    /// State, as written.
    state: String,
    /// Files below `crates/` that the row names.
    files: Vec<String>,
    /// Number of test files among the named files.
    tests: usize,
}

/// States that need a reason after a colon.
const WITH_REASON: [&str; 3] = ["partly: ", "different: ", "not built: "];
/// State that names a recording.
const RECORDED: &str = "recorded: ";
/// Characters of a reason, at least.
const REASON_MIN: usize = 8;

/// Splits an id such as `VAL-12`.
fn split_id(text: &str) -> Option<(&str, usize)> {
    let (section, number) = text.split_once('-')?;
    let is_section = !section.is_empty() && section.chars().all(|letter| letter.is_ascii_uppercase());
    let is_number = number.len() == 2 && number.chars().all(|digit| digit.is_ascii_digit());
    if is_section && is_number {
        Some((section, number.parse().ok()?))
    } else {
        None
    }
}

fn rules() -> Vec<Rule> {
    let page = fs::read_to_string(root().join(PAGE)).expect(PAGE);
    let rule = |line: &str| {
        let id = line.strip_prefix("| ")?.split(' ').next()?;
        let (section, number) = split_id(id)?;
        let cells: Vec<&str> = line
            .strip_suffix('|')?
            .rsplit('|')
            .take(FILE_COLUMNS + 1)
            .collect();
        let files_of = |cell: &str| {
            let files = cell.split('`').skip(1).step_by(2);
            let files = files.filter(|file| file.ends_with(".rs") && file.contains('/'));
            files.map(str::to_owned).collect::<Vec<_>>()
        };
        let [tests, code, state] = cells.as_slice() else {
            return None;
        };
        let tests = files_of(tests);
        Some(Rule {
            section: section.to_owned(),
            number,
            state: state.trim().to_owned(),
            tests: tests.len(),
            files: tests.into_iter().chain(files_of(code)).collect(),
        })
    };
    page.lines().filter_map(rule).collect()
}

/// Numbers of the rules of each section.
fn numbers(rules: &[Rule]) -> BTreeMap<&str, BTreeSet<usize>> {
    let mut numbers = BTreeMap::<&str, BTreeSet<usize>>::new();
    for rule in rules {
        numbers.entry(&rule.section).or_default().insert(rule.number);
    }
    numbers
}

#[test]
fn rules_are_complete() {
    let rules = rules();
    let gaps = numbers(&rules)
        .into_iter()
        .filter(|(_, numbers)| !numbers.iter().copied().eq(1..=numbers.len()))
        .map(|(section, numbers)| format!("{section}: expected 1 to {}, found {numbers:?}", numbers.len()))
        .collect::<Vec<_>>();
    assert_none("numbers of rules", &gaps);
    let distinct = numbers(&rules).values().map(BTreeSet::len).sum::<usize>();
    assert_eq!((rules.len(), distinct), (RULES, RULES), "rows and distinct ids");
}

#[test]
fn files_of_rules_exist() {
    let crates = root().join("crates");
    let mut violations = Vec::new();
    for rule in rules() {
        for file in rule.files.iter().filter(|file| !crates.join(file).exists()) {
            violations.push(format!(
                "{}-{:02}: {file} (run tools/features)",
                rule.section, rule.number
            ));
        }
    }
    assert_none("files of rules", &violations);
}

/// A rule works and a test shows it, or its state gives a reason or names another place.
#[test]
fn rules_have_a_test_or_a_reason() {
    let has_reason = |state: &str| {
        let mut reasons = WITH_REASON.iter().filter_map(|prefix| state.strip_prefix(prefix));
        reasons.any(|reason| reason.len() >= REASON_MIN)
    };
    let is_recorded = |state: &str| {
        let file = state
            .strip_prefix(RECORDED)
            .and_then(|rest| rest.split('`').nth(1));
        file.is_some_and(|file| root().join(file).exists())
    };
    let violations = rules().into_iter().filter(|rule| {
        let state = rule.state.as_str();
        let is_shown = match state {
            "works" => rule.tests > 0,
            // The recorded cases of its section, which name no rules.
            "recorded" => true,
            state => has_reason(state) || is_recorded(state) || state.starts_with("see "),
        };
        !is_shown
    });
    let violations: Vec<String> = violations
        .map(|rule| format!("{}-{:02}: {}", rule.section, rule.number, rule.state))
        .collect();
    assert_none("states of rules", &violations);
}

#[test]
fn citations_name_rules() {
    let rules = rules();
    let numbers = numbers(&rules);
    let mut violations = Vec::new();
    for source in rust_files("crates") {
        let words = source
            .text
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
        for (section, number) in words.filter_map(split_id) {
            let is_unknown = numbers.get(section).is_some_and(|known| !known.contains(&number));
            if is_unknown {
                violations.push(format!("{}: {section}-{number:02}", source.path.display()));
            }
        }
    }
    assert_none("citations of rules", &violations);
}

#[test]
fn ids_split_into_section_and_number() {
    assert_eq!(split_id("VAL-12"), Some(("VAL", 12)));
    assert_eq!(split_id("VAL-123"), None);
    assert_eq!(split_id("val-12"), None);
}
