//! Lines of an access log. All but printable ASCII is escaped, so that a client cannot forge a line or a field.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Record, RequestRecord};
use crate::settings::LogFormat;

#[cfg(test)]
mod tests;

/// Maximum number of characters that a line keeps of a text that a client chose: enough to recognize it.
const TEXT_CHARACTERS_MAX: usize = 2048;

/// Returns the line of a request, with its line feed.
pub(super) fn of_request(record: &RequestRecord<'_>, format: LogFormat) -> String {
    match format {
        LogFormat::Common => common_request(record),
        LogFormat::Json => json(&JsonRequest::of(record)),
    }
}

/// Returns the line of a connection, with its line feed.
pub(super) fn of_connection(record: &Record<'_>, format: LogFormat) -> String {
    match format {
        LogFormat::Common => common_connection(record),
        LogFormat::Json => json(&JsonConnection::of(record)),
    }
}

/// Returns the Common Log Format: `client - - [time] "request line" status bytes`, with `-` for unknown values.
fn common_request(record: &RequestRecord<'_>) -> String {
    let mut line = line_beginning(&record.record);
    escape(&mut line, record.method);
    line.push(' ');
    escape(&mut line, record.target);
    line.push(' ');
    escape(&mut line, record.version);
    append(&mut line, format_args!("\" {} ", record.status));
    append_bytes(&mut line, record.record.sent_bytes);
    line
}

/// Returns the same shape with `"TCP destination backend"` (or `SSL`) as the request line, and without a status.
fn common_connection(record: &Record<'_>) -> String {
    let mut line = line_beginning(record);
    let kind = kind(record);
    append(&mut line, format_args!("{kind} {} ", record.peer.destination));
    match record.backend {
        Some(backend) => append(&mut line, format_args!("{backend}")),
        None => line.push('-'),
    }
    line.push_str("\" - ");
    append_bytes(&mut line, record.sent_bytes);
    line
}

fn kind(record: &Record<'_>) -> &'static str {
    if record.peer.tls.is_some() { "SSL" } else { "TCP" }
}

fn line_beginning(record: &Record<'_>) -> String {
    let (client, started_at) = (record.peer.ip(), time(record.started_at).to_zoned(TimeZone::UTC));
    format!(
        "{client} - - [{}] \"",
        started_at.strftime("%d/%b/%Y:%H:%M:%S %z")
    )
}

fn append_bytes(line: &mut String, bytes: u64) {
    match bytes {
        0 => line.push_str("-\n"),
        bytes => append(line, format_args!("{bytes}\n")),
    }
}

fn append(line: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    line.write_fmt(arguments).unwrap_or_default();
}

/// Appends a text, with escapes as servers write them: `\"`, `\\`, and `\xHH` for each byte that is not printable
/// ASCII.
fn escape(line: &mut String, text: &str) {
    for char in text.chars().take(TEXT_CHARACTERS_MAX) {
        match char {
            '"' | '\\' => line.extend(['\\', char]),
            ' '..='~' => line.push(char),
            _ => {
                for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                    append(line, format_args!("\\x{byte:02x}"));
                }
            }
        }
    }
}

/// Returns the time, or the epoch if the clock is before it.
fn time(time: std::time::SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the line of an object. A string may hold control characters of Unicode, which terminals obey and readers
/// take for the end of a line: JSON itself permits them.
fn json(record: &impl Serialize) -> String {
    // Texts and numbers are always valid JSON.
    let json = serde_json::to_string(record).unwrap_or_default();
    let mut line = String::with_capacity(json.len() + 1);
    for char in json.chars() {
        match char {
            ' '..='~' => line.push(char),
            // Characters below the space are escaped already, so that all of these are within a string.
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    append(&mut line, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    line.push('\n');
    line
}

fn shorten(text: &str) -> &str {
    match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}

/// Fields of requests and connections.
#[derive(Serialize)]
struct JsonRecord<'a> {
    time: String,
    namespace: &'a str,
    service: &'a str,
    port: u16,
    client: String,
    backend: Option<String>,
    received_bytes: u64,
    sent_bytes: u64,
    duration_seconds: f64,
    tls_version: Option<&'a str>,
    tls_cipher_suite: Option<&'a str>,
    outcome: &'a str,
}

impl<'a> JsonRecord<'a> {
    fn of(record: &Record<'a>) -> Self {
        let tls = record.peer.tls.as_deref();
        Self {
            time: time(record.started_at).to_string(),
            namespace: &record.service.namespace,
            service: &record.service.name,
            port: record.port,
            client: record.peer.client.to_string(),
            backend: record.backend.map(|backend| backend.to_string()),
            received_bytes: record.received_bytes,
            sent_bytes: record.sent_bytes,
            duration_seconds: record.duration.as_secs_f64(),
            tls_version: tls.map(|tls| tls.version),
            tls_cipher_suite: tls.map(|tls| tls.cipher_suite.as_str()),
            outcome: record.outcome,
        }
    }
}

/// Fields of a request.
#[derive(Serialize)]
struct JsonRequest<'a> {
    #[serde(flatten)]
    record: JsonRecord<'a>,
    method: &'a str,
    target: &'a str,
    version: &'a str,
    host: Option<&'a str>,
    status: u16,
    referer: Option<&'a str>,
    user_agent: Option<&'a str>,
}

impl<'a> JsonRequest<'a> {
    fn of(record: &RequestRecord<'a>) -> Self {
        Self {
            record: JsonRecord::of(&record.record),
            method: shorten(record.method),
            target: shorten(record.target),
            version: record.version,
            host: record.host.map(shorten),
            status: record.status,
            referer: record.referer.map(shorten),
            user_agent: record.user_agent.map(shorten),
        }
    }
}

/// Fields of a connection.
#[derive(Serialize)]
struct JsonConnection<'a> {
    #[serde(flatten)]
    record: JsonRecord<'a>,
    destination: String,
    protocol: &'a str,
    tls_server_name: Option<&'a str>,
}

impl<'a> JsonConnection<'a> {
    fn of(record: &Record<'a>) -> Self {
        let tls = record.peer.tls.as_deref();
        Self {
            record: JsonRecord::of(record),
            destination: record.peer.destination.to_string(),
            protocol: kind(record),
            tls_server_name: tls.and_then(|tls| tls.server_name.as_deref()).map(shorten),
        }
    }
}
