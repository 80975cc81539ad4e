//! Label selectors: `app=x,env in (a,b),!old`.

use std::fmt;

use serde_json::Value;

use super::SelectorError;
use crate::machinery::field::{FieldError, Path};
use crate::machinery::names;
use crate::machinery::tree;

/// Operators as messages list them.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A conjunction of requirements on labels; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
    /// The values that the operator compares with, sorted.
    pub values: Vec<String>,
}

/// What a requirement asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is there with one of the values (`=`, `==`, `in`).
    In,
    /// The label is absent or has none of the values (`!=`, `notin`).
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is a whole number above the value.
    GreaterThan,
    /// The label is a whole number below the value.
    LessThan,
}

impl LabelSelector {
    /// Reads a selector; white space between words does not count.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            words: split(text),
            at: 0,
        };
        let requirements = parser.selector().map_err(SelectorError)?;
        Ok(Self { requirements })
    }

    /// The conjunction of these.
    pub(super) fn of(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, all of which must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether labels match; `label` gives the value of a key.
    pub fn matches<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }

    /// Whether an object's labels match.
    pub fn matches_object(&self, object: &Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let labels = tree::child(tree::child(object, "metadata"), "labels");
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

/// The form that [`LabelSelector::parse`] reads, the requirements in the order of their keys.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut requirements: Vec<&Requirement> = self.requirements.iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        for (index, requirement) in requirements.into_iter().enumerate() {
            let gap = if index == 0 { "" } else { "," };
            write!(f, "{gap}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In if self.values.len() == 1 => write!(f, "{key}={values}"),
            Operator::NotIn if self.values.len() == 1 => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In => value.is_some_and(among),
            Operator::NotIn => !value.is_some_and(among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, limit| label > limit),
            Operator::LessThan => self.compare(value, |label, limit| label < limit),
        }
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|v| v.parse().ok());
        let limit = self.values.first().and_then(|v| v.parse().ok());
        matches!((label, limit), (Some(label), Some(limit)) if holds(label, limit))
    }

    /// Checks key and values as labels.
    fn checked(self) -> Result<Self, String> {
        let mut faults: Vec<String> = Vec::new();
        let mut fault = |path: &Path, value: &str, detail: String| {
            faults.push(FieldError::invalid(path, value, detail).to_string());
        };
        for detail in names::qualified_name(&self.key) {
            fault(&Path::new("key"), &self.key, detail);
        }
        let is_order = matches!(self.operator, Operator::GreaterThan | Operator::LessThan);
        for (index, value) in self.values.iter().enumerate() {
            let path = Path::new("values").index(index);
            if is_order && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                fault(&path, value, detail.to_owned());
            }
            for detail in names::label_value(value) {
                fault(&path.key(&self.key), value, detail);
            }
        }
        match faults.as_slice() {
            [] => Ok(self),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// The words of a selector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word<'t> {
    /// `(`, `)`, `,`, `!`, `=`, `==`, `!=`, `<` or `>`.
    Symbol(&'t str),
    /// A key, a value, `in` or `notin`.
    Name(&'t str),
    End,
}

impl<'t> Word<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Symbol(text) | Self::Name(text) => text,
            Self::End => "",
        }
    }
}

fn split(text: &str) -> Vec<Word<'_>> {
    const SYMBOLS: &[char] = &['(', ')', ',', '!', '=', '<', '>'];
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if SYMBOLS.contains(&first) {
            if rest.starts_with("==") || rest.starts_with("!=") {
                2
            } else {
                1
            }
        } else {
            rest.find(|c: char| SYMBOLS.contains(&c) || c.is_whitespace())
                .unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(length);
        words.push(if SYMBOLS.contains(&first) {
            Word::Symbol(word)
        } else {
            Word::Name(word)
        });
        rest = after.trim_start();
    }
    words
}

struct Parser<'t> {
    words: Vec<Word<'t>>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Word<'t> {
        self.words.get(self.at).copied().unwrap_or(Word::End)
    }

    fn next(&mut self) -> Word<'t> {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Word::End => return Ok(requirements),
                Word::Name(_) | Word::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self
                .requirement()
                .and_then(Requirement::checked)
                .map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.next() {
                Word::End => return Ok(requirements),
                Word::Symbol(",") => {
                    if !matches!(self.peek(), Word::Name(_) | Word::Symbol("!")) {
                        let found = self.peek().text();
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Word::Symbol("!");
        if negated {
            self.at += 1;
        }
        let Word::Name(key) = self.next() else {
            self.at -= 1;
            return Err(format!("found '{}', expected: identifier", self.peek().text()));
        };
        let of = |operator, values: Vec<String>| Requirement {
            key: key.to_owned(),
            operator,
            values,
        };
        if negated {
            return Ok(of(Operator::DoesNotExist, Vec::new()));
        }
        if matches!(self.peek(), Word::End | Word::Symbol(",")) {
            return Ok(of(Operator::Exists, Vec::new()));
        }
        let operator = self.next();
        match operator.text() {
            "in" => Ok(of(Operator::In, self.values()?)),
            "notin" => Ok(of(Operator::NotIn, self.values()?)),
            "=" | "==" => Ok(of(Operator::In, vec![self.value()?])),
            "!=" => Ok(of(Operator::NotIn, vec![self.value()?])),
            ">" => Ok(of(Operator::GreaterThan, vec![self.value()?])),
            "<" => Ok(of(Operator::LessThan, vec![self.value()?])),
            found => Err(format!("found '{found}', expected: {BINARY_OPERATORS}")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Word::End | Word::Symbol(",") => Ok(String::new()),
            Word::Name(value) => {
                self.at += 1;
                Ok(value.to_owned())
            }
            Word::Symbol(found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    /// The values between parentheses; an empty place is the empty value, also if it is the only one.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Word::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        let mut expects_value = true;
        loop {
            match self.next() {
                Word::Name(value) if expects_value => {
                    values.push(value.to_owned());
                    expects_value = false;
                }
                Word::Symbol(",") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    expects_value = true;
                }
                Word::Symbol(")") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    break;
                }
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}
