use serde_json::Value;

use super::*;

#[test]
fn exit_codes_are_causes_of_the_status() {
    let status: Value = serde_json::from_slice(&CommandResult::Exited(3).status()).expect("JSON");
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(status["details"]["causes"][0]["reason"], "ExitCode");
    assert_eq!(status["details"]["causes"][0]["message"], "3");
    let status: Value = serde_json::from_slice(&CommandResult::Exited(0).status()).expect("JSON");
    assert_eq!(status["status"], "Success");
}

#[test]
fn successful_command_has_no_text() {
    assert_eq!(CommandResult::Exited(0).text(), b"");
    assert_eq!(CommandResult::Failed("no shell".to_owned()).text(), b"no shell");
}
