//! Output of subcommands to standard output.

use std::io::Write as _;

use clap::ValueEnum;

/// Prints a text. A closed pipe, as in `portolan --help | head`, is not an error.
pub(crate) fn print(text: &str) {
    print_while_open(text);
}

/// Prints a text. Returns false if standard output is closed, so that a command that prints again and again ends.
pub(crate) fn print_while_open(text: &str) -> bool {
    let mut output = std::io::stdout().lock();
    let printed = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    if let Err(error) = &printed {
        tracing::debug!(%error, "standard output closed");
    }
    printed.is_ok()
}

/// Escapes control characters: texts of objects must not control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Format of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

impl Format {
    /// Prints a status.
    pub(crate) fn print(self, json: &serde_json::Value, text: impl FnOnce() -> String) {
        print(&match self {
            Self::Text => text(),
            Self::Json => format!("{json:#}\n"),
        });
    }
}

/// Formats a duration as `kubectl` formats ages.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
