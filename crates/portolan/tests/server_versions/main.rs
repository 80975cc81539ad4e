//! Components of a cluster with API servers of other versions: a filter before the API server answers as 1.24, 1.27,
//! 1.30 and 1.33 do.

#[path = "../support/mod.rs"]
mod support;

#[path = "../controllers/driver.rs"]
#[allow(dead_code, reason = "shared with the tests of the controllers")]
mod driver;

mod components;
mod filter;
mod proxy;
mod version;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::Component;

/// A component with its log.
struct Logged {
    _process: Component,
    log: PathBuf,
}

impl Logged {
    /// Starts the binary under test; the log is `directory/NAME.log`.
    fn start(directory: &Path, name: &str, arguments: &[&str]) -> Self {
        let log = directory.join(format!("{name}.log"));
        let process = Command::new(support::program())
            .args(arguments)
            .args(["--log-level=info", "--logging-format=json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .expect("the binary under test");
        Self {
            _process: process.into(),
            log,
        }
    }

    /// Returns the lines of the log with a level of at least WARN.
    fn warnings(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).expect("a log");
        let is_warning = |line: &&str| line.contains("\"WARN\"") || line.contains("\"ERROR\"");
        log.lines().filter(is_warning).map(str::to_owned).collect()
    }
}
