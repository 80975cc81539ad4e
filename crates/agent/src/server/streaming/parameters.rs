//! Parameters of a command in the query of a request, with the kubelet's names.

use streams::protocol::Stream;

/// Words of a command. The request head bounds its bytes.
const WORDS_MAX: usize = 4096;

/// Parameters of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandOptions {
    /// Program and arguments.
    pub command: Vec<String>,
    /// True if the client sends standard input.
    pub has_input: bool,
    /// True if the client receives standard output.
    pub has_output: bool,
    /// True if the client receives standard error.
    pub has_error: bool,
    /// True if the standard streams are a terminal.
    pub has_terminal: bool,
}

impl CommandOptions {
    /// Parses a query.
    pub(super) fn parse(query: &str) -> Self {
        let mut options = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_set = matches!(value, "1" | "true");
            match name {
                "command" if options.command.len() < WORDS_MAX => options.command.push(decode(value)),
                "input" => options.has_input = is_set,
                "output" => options.has_output = is_set,
                "error" => options.has_error = is_set,
                "tty" => options.has_terminal = is_set,
                _ => {}
            }
        }
        // As upstream: a terminal has one output.
        options.has_error &= !options.has_terminal;
        options
    }

    /// Returns the streams of the request, without status and sizes.
    pub(super) fn streams(&self) -> impl Iterator<Item = Stream> {
        let all = [
            (self.has_input, Stream::Input),
            (self.has_output, Stream::Output),
            (self.has_error, Stream::Error),
        ];
        all.into_iter()
            .filter_map(|(is_requested, stream)| is_requested.then_some(stream))
    }
}

/// Decodes percent-encoding. Invalid escapes stay as they are.
pub(in crate::server) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.first_chunk::<2>().filter(|_| *first == b'%');
        let digits = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
