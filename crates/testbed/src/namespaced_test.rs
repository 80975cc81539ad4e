//! Tests in an enclosure of their own: in parallel, without root, nothing seen by the host.

use std::any::type_name;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::enclosure::{self, settle};

/// How the inner process says that the test ran to its end. A filter that matches no test would exit with 0.
const EXIT_PASSED: i32 = 86;
/// How it says that the test could not run there. The last line of its output is the reason.
const EXIT_SKIPPED: i32 = 87;

/// Runs `test` in an enclosure of its own, where it is root and alone. To be the only statement of a `#[test]`:
/// the test binary is started once more for this one test. Where namespaces are forbidden, the test prints
/// `skipped: NAME: reason` and passes.
///
/// ```no_run
/// #[test]
/// fn links_are_listed() {
///     testbed::in_namespace(|| {
///         // root in an empty network namespace
///     });
/// }
/// ```
///
/// # Panics
/// If the test does inside, with its output.
pub fn in_namespace<F: FnOnce()>(test: F) {
    if enclosure::is_inside() {
        if let Err(error) = settle() {
            panic!("settling in the enclosure: {error}");
        }
        test();
        std::process::exit(EXIT_PASSED);
    }
    let name = test_name(type_name::<F>());
    let child = enclosure::this_program().and_then(|mut command| {
        arguments(&mut command, name);
        enclosure::spawn(&mut command)
    });
    let child = match child {
        Ok(child) => child,
        Err(error) => return skip(name, &error.to_string()),
    };
    let output = match child.wait_with_output() {
        Ok(output) => output,
        Err(error) => panic!("waiting for {name} in its enclosure: {error}"),
    };
    if output.status.code() == Some(EXIT_SKIPPED) {
        let text = String::from_utf8_lossy(&output.stdout);
        return skip(name, text.lines().last().unwrap_or_default());
    }
    assert!(
        output.status.code() == Some(EXIT_PASSED),
        "{name} in its enclosure: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Ends a test that runs by [`in_namespace`] where the kernel or a program lacks something that it needs: it prints
/// `skipped: NAME: reason` and passes.
pub fn skip_inside(reason: &str) -> ! {
    println!("\n{reason}");
    std::process::exit(EXIT_SKIPPED);
}

/// Says by name that a test did not run. Written past the test harness, which hides what passing tests print.
fn skip(name: &str, reason: &str) {
    let line = format!("skipped: {name}: {reason}\n");
    if let Err(error) = std::io::stderr().write_all(line.as_bytes()) {
        panic!("{line}{error}");
    }
}

fn arguments(command: &mut Command, name: &str) {
    command
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// `agent::network::tests::works::{{closure}}` is the closure of the test `network::tests::works`.
fn test_name(closure: &'static str) -> &'static str {
    let function = closure.split("::{{closure}}").next().unwrap_or(closure);
    function.split_once("::").map_or(function, |(_, path)| path)
}
