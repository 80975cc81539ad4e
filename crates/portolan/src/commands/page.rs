//! Asking a part that runs on this machine for what it says of itself, and printing that.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use clap::ValueEnum;
use serde::de::DeserializeOwned;

use crate::cli::say;

/// How long a part may take to answer what it knows already.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nobody listens there, or the kernel does not lead there. It helps to start the part, or to ask elsewhere.
    #[error(transparent)]
    Unreachable(io::Error),
    /// The answer did not come, or broke off; asking again may help.
    #[error(transparent)]
    Read(io::Error),
    /// Something else than a part of Portolan answers.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// The part does not have the page, or does not understand the question.
    #[error("it says {status:?}")]
    Refused {
        /// The first line of the answer.
        status: String,
        /// What it says behind its headers.
        body: String,
    },
    /// The page is not what was expected: most likely another version of the part answers.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Reads a page of JSON.
pub fn read<T: DeserializeOwned>(address: SocketAddr, path: &str) -> Result<T, PageError> {
    Ok(serde_json::from_str(&read_text(address, path, PATIENCE)?)?)
}

/// Reads a page, by one request without a client library: the answer ends with the connection. Connecting may take
/// `patience`, and so may each part of the answer.
pub fn read_text(address: SocketAddr, path: &str, patience: Duration) -> Result<String, PageError> {
    let stream = TcpStream::connect_timeout(&address, patience).map_err(PageError::Unreachable)?;
    let answer = exchange(stream, address, path, patience).map_err(PageError::Read)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(PageError::NotHttp)?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(PageError::Refused {
            status: status.to_owned(),
            body: body.to_owned(),
        });
    }
    Ok(body.to_owned())
}

fn exchange(
    mut stream: TcpStream,
    address: SocketAddr,
    path: &str,
    patience: Duration,
) -> io::Result<String> {
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// How a status is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

impl Output {
    /// Prints a status.
    pub fn print(self, json: &serde_json::Value, text: impl FnOnce() -> String) {
        say(&match self {
            Self::Text => text(),
            Self::Json => format!("{json:#}\n"),
        });
    }
}
