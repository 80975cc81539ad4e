//! Logs of containers, as `kubectl logs` requests them (kubelet's `kuberuntime/logs`).
//!
//! [`Options`] are the parameters of the request, [`find`] locates the files, [`read`] returns the lines.

mod entry;
mod reader;

use std::collections::HashMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::pods::state_directory::{PodDirectory, StateDirectory};
use crate::sandbox::OutputStream;

pub(crate) use entry::Entry;
pub use reader::{ClientGone, read};

#[cfg(test)]
mod tests;

/// Parameters of a request for a log (upstream's `PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Continue with later output.
    pub follow: bool,
    /// Select the run before the current one.
    pub previous: bool,
    /// Select only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Select only lines that are not older.
    pub since: Option<Timestamp>,
    /// Prefix each line with its timestamp.
    pub timestamps: bool,
    /// Return at most this many bytes.
    pub limit_bytes: Option<u64>,
    /// Select only the lines of one stream.
    pub stream: LogStream,
}

/// Streams of which a log is requested (upstream's `PodLogOptions.stream`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Both.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "All" => Some(Self::All),
            "Stdout" => Some(Self::Stdout),
            "Stderr" => Some(Self::Stderr),
            _ => None,
        }
    }

    /// Returns true if the output of the stream is requested.
    pub(crate) fn contains(self, stream: OutputStream) -> bool {
        match self {
            Self::All => true,
            Self::Stdout => stream == OutputStream::Output,
            Self::Stderr => stream == OutputStream::Error,
        }
    }
}

/// Reason why there is no log. Users see the messages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The value of a parameter is invalid.
    #[error("{name}: invalid value {value:?}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Rejected value.
        value: String,
    },
    /// Lines from the end of one stream are requested.
    #[error("`tailLines` and specific `stream` are mutually exclusive for now")]
    TailOfStream,
    /// The Pod is not on this node, or has not started.
    #[error("pod {pod:?} not found on this node, or not started yet")]
    Pod {
        /// Pod name.
        pod: String,
    },
    /// The container has not started. A retry may succeed.
    #[error("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")]
    NotStarted {
        /// Container name.
        container: String,
        /// Pod name.
        pod: String,
    },
    /// The container has no previous run, or its log was removed.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious {
        /// Container name.
        container: String,
        /// Pod name.
        pod: String,
    },
}

impl Options {
    /// Parses the parameters of a query at the time `now`.
    ///
    /// # Errors
    /// [`LogError::Parameter`] for an invalid value. [`LogError::TailOfStream`] for `tailLines` with one stream, as
    /// upstream.
    pub fn parse(query: &HashMap<String, String>, now: Timestamp) -> Result<Self, LogError> {
        let value = |name: &str| {
            query
                .get(name)
                .map(String::as_str)
                .filter(|value| !value.is_empty())
        };
        let invalid = |name: &'static str| LogError::Parameter {
            name,
            value: value(name).unwrap_or_default().to_owned(),
        };
        let flag = |name: &'static str| match value(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(invalid(name)),
        };
        let number = |name: &'static str| -> Result<Option<u64>, LogError> {
            value(name)
                .map(|text| text.parse().map_err(|_| invalid(name)))
                .transpose()
        };
        let seconds = number("sinceSeconds")?.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let since_seconds = seconds.map(|seconds| {
            now.checked_sub(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::UNIX_EPOCH)
        });
        let since_time = value("sinceTime").map(|text| text.parse().map_err(|_| invalid("sinceTime")));
        let since_time: Option<Timestamp> = since_time.transpose()?;
        let stream = value("stream").map_or(Some(LogStream::All), LogStream::parse);
        let stream = stream.ok_or_else(|| invalid("stream"))?;
        let tail_lines = number("tailLines")?;
        if tail_lines.is_some() && stream != LogStream::All {
            return Err(LogError::TailOfStream);
        }
        Ok(Self {
            follow: flag("follow")?,
            previous: flag("previous")?,
            tail_lines,
            since: since_time.or(since_seconds),
            timestamps: flag("timestamps")?,
            limit_bytes: number("limitBytes")?,
            stream,
        })
    }
}

/// Log of one run of a container.
#[derive(Clone, Debug)]
pub struct ContainerLog {
    directory: PodDirectory,
    container: String,
    /// Restart count of the container at that run.
    run: u32,
    /// Path of the current file.
    pub path: PathBuf,
}

impl ContainerLog {
    /// Returns true if the container may write more.
    pub fn may_grow(&self) -> bool {
        let checkpoint = self.directory.read_checkpoint().unwrap_or_default();
        let container = checkpoint.get(&self.container);
        container.is_some_and(|container| container.restarts() == self.run && container.is_running())
    }
}

/// Finds the log of a container.
///
/// # Errors
/// [`LogError`] if the Pod, the container or its previous run has none.
pub fn find(
    state: &StateDirectory,
    namespace: &str,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<ContainerLog, LogError> {
    let directory = state
        .find_pod(namespace, pod)
        .ok_or_else(|| LogError::Pod { pod: pod.to_owned() })?;
    let checkpoint = directory.read_checkpoint().unwrap_or_default();
    let restarts = checkpoint.get(container).map_or(0, |saved| saved.restarts());
    let missing = || {
        let (container, pod) = (container.to_owned(), pod.to_owned());
        if previous {
            LogError::NoPrevious { container, pod }
        } else {
            LogError::NotStarted { container, pod }
        }
    };
    let run = if previous {
        restarts.checked_sub(1)
    } else {
        Some(restarts)
    };
    let run = run.ok_or_else(missing)?;
    let path = directory.log(container, run);
    if !path.exists() {
        return Err(missing());
    }
    Ok(ContainerLog {
        directory,
        container: container.to_owned(),
        run,
        path,
    })
}
