//! The tests of `tools/image` and `tools/release`, which are Python programs.

use std::path::Path;
use std::process::Command;

#[test]
fn artifact_tools_pass_their_tests() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools");
    let mut command = Command::new("python3");
    command
        .args(["-m", "unittest", "discover", "--start-directory"])
        .arg(tools.join("artifacts/tests"))
        .arg("--top-level-directory")
        .arg(&tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PORTOLAN", env!("CARGO_BIN_EXE_portolan"));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: artifact_tools_pass_their_tests: python3 is not installed: {error}");
            return;
        }
    };
    let report = String::from_utf8_lossy(&output.stderr);
    // The lines of skipped tests, which `.ci/report` reads.
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{report}");
    assert!(
        report.contains("Ran ") && !report.contains("Ran 0 tests"),
        "{report}"
    );
}
