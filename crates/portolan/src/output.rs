//! Output of subcommands to standard output.

use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

use clap::ValueEnum;

/// First error of a result on standard output.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints a result. A failure, such as a full disk, changes the exit code of the command ([`failure`]). A closed pipe,
/// as in `portolan --help | head`, is not an error.
pub(crate) fn print(text: &str) {
    print_while_open(text);
}

/// Prints a result. Returns false if standard output is closed, so that a command that prints repeatedly ends.
pub(crate) fn print_while_open(text: &str) -> bool {
    match write(text) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => {
            // A later error has the same cause.
            FAILURE.set(error).ok();
            false
        }
    }
}

/// Prints a message of a process that runs until a signal. A failure does not change its exit code.
pub(crate) fn print_message(text: &str) {
    if let Err(error) = write(text) {
        tracing::debug!(%error, "message not written to standard output");
    }
}

/// Returns the error of a result that was not written.
pub(crate) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
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
