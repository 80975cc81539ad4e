//! The token file of `--token-auth-file`, in the upstream CSV form: `token,user,uid,"group1,group2"`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AUTHENTICATED, Identity};

/// Failure to read a token file.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A line does not have the form `token,user,uid[,"groups"]`.
    #[error("{}, line {line}: expected token,user,uid and optionally \"group,group\", {found}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The problem, without the token.
        found: &'static str,
    },
}

/// Static tokens and their owners.
#[derive(Debug, Default)]
pub(crate) struct StaticTokens {
    owners: HashMap<String, Arc<Identity>>,
}

impl StaticTokens {
    /// Reads a token file.
    ///
    /// # Errors
    /// See [`TokenFileError`].
    pub(crate) fn read(path: &Path) -> Result<StaticTokens, TokenFileError> {
        let text = std::fs::read_to_string(path).map_err(|source| TokenFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        StaticTokens::parse(&text, path)
    }

    /// Returns the owner of a token.
    pub(crate) fn owner(&self, token: &str) -> Option<&Arc<Identity>> {
        self.owners.get(token)
    }

    fn parse(text: &str, path: &Path) -> Result<StaticTokens, TokenFileError> {
        let mut owners = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let problem = |found| TokenFileError::Line {
                path: path.to_owned(),
                line: index + 1,
                found,
            };
            let fields = split_line(line).ok_or_else(|| problem("found an unterminated quote"))?;
            let [token, user, uid, rest @ ..] = fields.as_slice() else {
                return Err(problem("found fewer fields"));
            };
            if token.is_empty() {
                return Err(problem("found an empty token"));
            }
            let groups = rest.first().map_or("", String::as_str);
            let groups: Vec<String> = groups
                .split(',')
                .map(str::trim)
                .filter(|group| !group.is_empty())
                .map(str::to_owned)
                .chain([AUTHENTICATED.to_owned()])
                .collect();
            let identity = Identity {
                user: user.clone(),
                uid: uid.clone(),
                groups,
                ..Identity::default()
            };
            if owners.insert(token.clone(), Arc::new(identity)).is_some() {
                tracing::warn!(
                    line = index + 1,
                    "duplicate token in the token file; the last one applies"
                );
            }
        }
        Ok(StaticTokens { owners })
    }
}

/// Splits one line of CSV (RFC 4180); `None` if a quote is not terminated.
fn split_line(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => fields.last_mut()?.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut()?.push(character),
        }
    }
    for field in &mut fields {
        *field = field.trim().to_owned();
    }
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests;
