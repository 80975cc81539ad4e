//! Logs: text on a terminal, JSON otherwise.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// Flags of the log, for all subcommands.
#[derive(Debug, Args)]
pub(crate) struct LogFlags {
    /// Level: error, warn, info, debug, trace, or a filter like `proxy=debug,info`
    #[arg(long, global = true, default_value = "info", value_name = "FILTER", value_parser = filter)]
    pub log_level: String,
    /// Format of log lines
    #[arg(long, global = true, default_value = "auto", value_name = "FORMAT")]
    pub logging_format: Format,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text on a terminal, JSON otherwise
    Auto,
    /// One line of text per event
    Text,
    /// One JSON object per event
    Json,
}

/// Starts logging to standard error.
pub(crate) fn start(flags: &LogFlags) {
    let is_terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::new(&flags.log_level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // An error about a closed log would be written to the same closed pipe, and panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let is_text =
        flags.logging_format == Format::Text || (flags.logging_format == Format::Auto && is_terminal);
    if is_text {
        builder.with_ansi(is_terminal).init();
    } else {
        builder.json().flatten_event(true).init();
    }
}

/// Filter of `--log-level` that is invalid.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    /// A word that is not a level would select a component of this name, and nothing else.
    #[error(
        "expected error, warn, info, debug, trace or off, or COMPONENT=LEVEL, for example proxy=debug,info; found {0:?}"
    )]
    Level(String),
    /// The filter is malformed.
    #[error(transparent)]
    Syntax(#[from] ParseError),
}

fn filter(text: &str) -> Result<String, FilterError> {
    let words = text.split(',').map(str::trim);
    let mut words = words.filter(|word| !word.contains(['=', '[', ']', '{', '}']));
    if let Some(word) = words.find(|word| word.parse::<LevelFilter>().is_err() || is_number(word)) {
        return Err(FilterError::Level(word.to_owned()));
    }
    EnvFilter::try_new(text)?;
    Ok(text.to_owned())
}

/// Returns true for levels that `tracing` accepts as numbers.
fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
