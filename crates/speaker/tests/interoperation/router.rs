//! Routers outside of the cluster: programs of several projects behind one interface.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of every wait; only a failing test reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(40);

/// Pause between two queries.
const QUERY_PERIOD: Duration = Duration::from_millis(50);

/// A running router.
pub(crate) trait Router {
    /// Returns the response to a command.
    fn query(&self, command: &str) -> String;

    /// Waits until the response to a command satisfies a condition, and returns it.
    fn wait(&self, command: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let response = self.query(command);
            if is_expected(&response) {
                return response;
            }
            assert!(Instant::now() < end, "{command}: {response}");
            thread::sleep(QUERY_PERIOD);
        }
    }

    /// Waits until the response to a command contains a text, and returns it.
    fn wait_for(&self, command: &str, text: &str) -> String {
        self.wait(command, |response| response.contains(text))
    }
}

/// A process of a router, which ends with its value.
pub(crate) struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has already exited does not fail the test.
        self.0.kill().unwrap_or_default();
        self.0.wait().map(|_| ()).unwrap_or_default();
    }
}

/// Returns true if a program with the given version flag is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Returns the output of a command, also if it fails.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().expect("a program");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
