//! Parser of label selectors, with upstream's messages.

use super::SelectorError;
use super::labels::{LabelSelector, Operator, Requirement};

/// Operators, as in upstream's messages.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

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
        Ok(Self::of(requirements))
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
            rest.find(|character: char| SYMBOLS.contains(&character) || character.is_whitespace())
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

/// Recursive-descent parser of a selector.
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
