//! Logs: readable on a terminal, JSON otherwise.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Flags of every subcommand that logs.
#[derive(Debug, Args)]
pub struct LogFlags {
    /// What to log: error, warn, info, debug or trace, or a filter like `proxy=debug,info`
    #[arg(long, global = true, default_value = "info", value_name = "FILTER", value_parser = filter)]
    pub log_level: String,
    /// How to log; `auto` is text on a terminal and JSON otherwise
    #[arg(long, global = true, default_value = "auto", value_name = "FORMAT")]
    pub logging_format: Format,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text on a terminal, JSON otherwise
    Auto,
    /// One readable line an event
    Text,
    /// One JSON object an event
    Json,
}

/// Starts logging to standard error.
pub fn start(flags: &LogFlags) {
    let terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::new(&flags.log_level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Complaints about a log that nobody reads any more would go to the same closed pipe, and panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let text = flags.logging_format == Format::Text || (flags.logging_format == Format::Auto && terminal);
    if text {
        builder.with_ansi(terminal).with_target(false).init();
    } else {
        builder.json().flatten_event(true).init();
    }
}

fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|e| e.to_string())
}
