//! Metrics and labels that a PromQL expression names: enough of the syntax for the expressions in `deploy/monitoring`.

use std::collections::BTreeSet;

/// Words that precede a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Operators that are words.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// A metric with the labels of its matchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub metric: String,
    pub labels: BTreeSet<String>,
}

/// Names in an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub selectors: Vec<Selector>,
    /// Labels of aggregations and of vector matching.
    pub groupings: BTreeSet<String>,
}

/// Returns the names in an expression.
pub(crate) fn names(expression: &str) -> Names {
    let mut names = Names::default();
    let mut tokens = tokens(expression).into_iter().peekable();
    while let Some(token) = tokens.next() {
        if !is_identifier(&token) || OPERATORS.contains(&token.as_str()) {
            continue;
        }
        let opens = tokens.peek().map(String::as_str);
        if GROUPINGS.contains(&token.as_str()) {
            let list = tokens.by_ref().take_while(|token| token != ")");
            names.groupings.extend(list.filter(|token| is_identifier(token)));
        } else if opens == Some("{") {
            let matchers: Vec<String> = tokens.by_ref().take_while(|token| token != "}").collect();
            let labels = matchers
                .into_iter()
                .filter(|token| is_identifier(token))
                .collect();
            names.selectors.push(Selector {
                metric: token,
                labels,
            });
        } else if opens.is_none_or(|opens| opens != "(" && !GROUPINGS.contains(&opens)) {
            // Neither a function nor an aggregation.
            names.selectors.push(Selector {
                metric: token,
                labels: BTreeSet::new(),
            });
        }
    }
    names
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Returns identifiers, numbers, brackets and characters of operators. Strings and ranges are omitted.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut characters = expression.chars().peekable();
    while let Some(first) = characters.next() {
        let is_part = |next: &char| next.is_ascii_alphanumeric() || "_:.".contains(*next);
        match first {
            '"' | '\'' => while characters.next().is_some_and(|next| next != first) {},
            '[' => while characters.next().is_some_and(|next| next != ']') {},
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let mut token = first.to_string();
                while let Some(next) = characters.next_if(is_part) {
                    token.push(next);
                }
                tokens.push(token);
            }
            _ if first.is_whitespace() => {}
            _ => tokens.push(first.to_string()),
        }
    }
    tokens
}

#[test]
fn names_of_an_expression_are_found() {
    let found = names(
        "histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{code=~\"5..|<error>\", job=\"x{y}\"}[5m]))) \
         / on (job) group_left (zone) (b:c > bool 24 * 3600) unless max without (ip) (d) / on (zone) e",
    );
    let selector = |metric: &str, labels: &[&str]| Selector {
        metric: metric.to_owned(),
        labels: labels.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(
        found.selectors,
        [
            selector("a_bucket", &["code", "job"]),
            selector("b:c", &[]),
            selector("d", &[]),
            selector("e", &[])
        ]
    );
    let groupings: Vec<&str> = found.groupings.iter().map(String::as_str).collect();
    assert_eq!(groupings, ["ip", "job", "le", "zone"]);
}
