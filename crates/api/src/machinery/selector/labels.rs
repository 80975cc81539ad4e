//! Label selectors, for example `app=x,env in (a,b),!old`.

use std::fmt;

use serde_json::Value;

use super::SelectorError;
use crate::machinery::field::{FieldError, Path};
use crate::machinery::names;
use crate::machinery::tree;

/// Operators, as in upstream's messages.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A conjunction of requirements on labels. The empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// Requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison operator.
    pub operator: Operator,
    /// Operands, sorted.
    pub values: Vec<String>,
}

/// Operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values (`=`, `==`, `in`).
    In,
    /// The label is absent, or has none of the values (`!=`, `notin`).
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than the value.
    GreaterThan,
    /// The label is an integer less than the value.
    LessThan,
}

impl LabelSelector {
    /// Parses a selector. White space between tokens is ignored.
    ///
    /// # Errors
    /// Fails for malformed text, keys and values, with upstream's messages.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            tokens: tokenize(text),
            position: 0,
        };
        let requirements = parser.selector().map_err(SelectorError)?;
        Ok(Self { requirements })
    }

    /// Creates a selector of these requirements.
    pub(super) fn of(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// True if the selector matches all objects.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, all of which have to hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// True if labels match; `label` returns the value of a key.
    pub fn matches<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }

    /// True if the labels of an object match.
    pub fn matches_object(&self, object: &Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let labels = tree::child(tree::child(object, "metadata"), "labels");
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

/// Formats the selector for [`LabelSelector::parse`], with requirements sorted by key.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut requirements: Vec<&Requirement> = self.requirements.iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        for (index, requirement) in requirements.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
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
        let has = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In => value.is_some_and(has),
            Operator::NotIn => !value.is_some_and(has),
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

    /// Validates key and values as labels.
    fn validate(self) -> Result<Self, String> {
        let mut errors: Vec<String> = Vec::new();
        let mut add_error = |path: &Path, value: &str, detail: String| {
            errors.push(FieldError::invalid(path, value, detail).to_string());
        };
        for detail in names::qualified_name(&self.key) {
            add_error(&Path::new("key"), &self.key, detail);
        }
        let is_order = matches!(self.operator, Operator::GreaterThan | Operator::LessThan);
        for (index, value) in self.values.iter().enumerate() {
            let path = Path::new("values").index(index);
            if is_order && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                add_error(&path, value, detail.to_owned());
            }
            for detail in names::label_value(value) {
                add_error(&path.key(&self.key), value, detail);
            }
        }
        match errors.as_slice() {
            [] => Ok(self),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// Token of a selector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    /// `(`, `)`, `,`, `!`, `=`, `==`, `!=`, `<` or `>`.
    Symbol(&'t str),
    /// A key, a value, `in` or `notin`.
    Name(&'t str),
    End,
}

impl<'t> Token<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Symbol(text) | Self::Name(text) => text,
            Self::End => "",
        }
    }
}

fn tokenize(text: &str) -> Vec<Token<'_>> {
    const SYMBOLS: &[char] = &['(', ')', ',', '!', '=', '<', '>'];
    let mut tokens = Vec::new();
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
        let (token, after) = rest.split_at(length);
        tokens.push(if SYMBOLS.contains(&first) {
            Token::Symbol(token)
        } else {
            Token::Name(token)
        });
        rest = after.trim_start();
    }
    tokens
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    position: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Name(_) | Token::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self
                .requirement()
                .and_then(Requirement::validate)
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {
                    if !matches!(self.peek(), Token::Name(_) | Token::Symbol("!")) {
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
        let is_negated = self.peek() == Token::Symbol("!");
        if is_negated {
            self.position += 1;
        }
        let Token::Name(key) = self.next() else {
            self.position -= 1;
            return Err(format!("found '{}', expected: identifier", self.peek().text()));
        };
        let requirement = |operator, values: Vec<String>| Requirement {
            key: key.to_owned(),
            operator,
            values,
        };
        if is_negated {
            return Ok(requirement(Operator::DoesNotExist, Vec::new()));
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(requirement(Operator::Exists, Vec::new()));
        }
        let operator = self.next();
        match operator.text() {
            "in" => Ok(requirement(Operator::In, self.values()?)),
            "notin" => Ok(requirement(Operator::NotIn, self.values()?)),
            "=" | "==" => Ok(requirement(Operator::In, vec![self.value()?])),
            "!=" => Ok(requirement(Operator::NotIn, vec![self.value()?])),
            ">" => Ok(requirement(Operator::GreaterThan, vec![self.value()?])),
            "<" => Ok(requirement(Operator::LessThan, vec![self.value()?])),
            found => Err(format!("found '{found}', expected: {BINARY_OPERATORS}")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Name(value) => {
                self.position += 1;
                Ok(value.to_owned())
            }
            Token::Symbol(found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    /// Parses the values between parentheses. An empty position is the empty value, even if it is the only one.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        let mut expects_value = true;
        loop {
            match self.next() {
                Token::Name(value) if expects_value => {
                    values.push(value.to_owned());
                    expects_value = false;
                }
                Token::Symbol(",") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    expects_value = true;
                }
                Token::Symbol(")") => {
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
