//! What containers have printed, as `kubectl logs` asks for it: the question ([`Options`]), where the answer is
//! ([`find`]), and the answer ([`read`]).

mod follow;
mod line;

use std::collections::HashMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::state_directory::{PodDirectory, StateDirectory};

pub use follow::{Stop, read};

#[cfg(test)]
mod tests;

/// What is asked for: the parameters of upstream's `PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Go on with what is printed later.
    pub follow: bool,
    /// The run before the present one.
    pub previous: bool,
    /// Only so many lines, the last ones.
    pub tail_lines: Option<u64>,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// Each line with its time.
    pub timestamps: bool,
    /// No more bytes than that.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log. The messages are for people.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A parameter has no such value.
    #[error("{name}: invalid value {value:?}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// The Pod is not on this node, or was never started.
    #[error("pod {pod:?} not found on this node, or not started yet")]
    Pod {
        /// Name of the Pod.
        pod: String,
    },
    /// The container was not started yet. It may be later.
    #[error("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")]
    NotStarted {
        /// The container.
        container: String,
        /// The Pod.
        pod: String,
    },
    /// It was not started anew, or so often that the log is gone.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious {
        /// The container.
        container: String,
        /// The Pod.
        pod: String,
    },
}

impl Options {
    /// Reads the parameters of a query, at the time `now`.
    pub fn parse(query: &HashMap<String, String>, now: Timestamp) -> Result<Self, LogError> {
        let value = |name: &str| {
            query
                .get(name)
                .map(String::as_str)
                .filter(|value| !value.is_empty())
        };
        let wrong = |name: &'static str| LogError::Parameter {
            name,
            value: value(name).unwrap_or_default().to_owned(),
        };
        let flag = |name: &'static str| match value(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(wrong(name)),
        };
        let number = |name: &'static str| -> Result<Option<u64>, LogError> {
            value(name)
                .map(|text| text.parse().map_err(|_| wrong(name)))
                .transpose()
        };
        let seconds = number("sinceSeconds")?.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let since_seconds = seconds.map(|seconds| {
            now.checked_sub(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::UNIX_EPOCH)
        });
        let since_time = value("sinceTime").map(|text| text.parse().map_err(|_| wrong("sinceTime")));
        let since_time: Option<Timestamp> = since_time.transpose()?;
        Ok(Self {
            follow: flag("follow")?,
            previous: flag("previous")?,
            tail_lines: number("tailLines")?,
            since: since_time.or(since_seconds),
            timestamps: flag("timestamps")?,
            limit_bytes: number("limitBytes")?,
        })
    }
}

/// One run of a container whose log is there.
#[derive(Clone, Debug)]
pub struct Found {
    directory: PodDirectory,
    container: String,
    /// How often the container had been started anew at that run.
    run: u32,
    /// Where its log is.
    pub path: PathBuf,
}

impl Found {
    /// Whether more may be printed.
    pub fn may_go_on(&self) -> bool {
        let memory = self.directory.memory().unwrap_or_default();
        memory
            .get(&self.container)
            .is_some_and(|known| known.restarts() == self.run && known.is_running())
    }
}

/// The log of a container of the Pod with that name.
pub fn find(
    state: &StateDirectory,
    namespace: &str,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<Found, LogError> {
    let directory = state
        .find(namespace, pod)
        .ok_or_else(|| LogError::Pod { pod: pod.to_owned() })?;
    let memory = directory.memory().unwrap_or_default();
    let restarts = memory.get(container).map_or(0, |known| known.restarts());
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
    Ok(Found {
        directory,
        container: container.to_owned(),
        run,
        path,
    })
}
