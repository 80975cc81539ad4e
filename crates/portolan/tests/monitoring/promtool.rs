//! `promtool` of Prometheus.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns true if `promtool` is installed. Otherwise prints that the test is skipped.
pub(crate) fn is_installed(test: &str) -> bool {
    let version = Command::new("promtool").arg("--version").output();
    let is_installed = version.is_ok_and(|output| output.status.success());
    if !is_installed {
        println!("skipped: {test}: promtool is not installed");
    }
    is_installed
}

/// Runs `promtool` in a directory. Returns its output, and true if it succeeded.
pub(crate) fn run(directory: &Path, arguments: &[&str], input: &str) -> (String, bool) {
    let mut command = Command::new("promtool");
    command
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool");
    let mut standard_input = child.stdin.take().expect("a pipe");
    // The program may exit without reading all of it.
    standard_input.write_all(input.as_bytes()).ok();
    drop(standard_input);
    let output = child.wait_with_output().expect("the output of promtool");
    let text = [output.stdout, output.stderr].concat();
    (
        String::from_utf8_lossy(&text).into_owned(),
        output.status.success(),
    )
}
