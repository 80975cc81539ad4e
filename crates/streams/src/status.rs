//! Result of a command, as the last message of its status stream.

use serde_json::json;

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// The command exited with a code.
    Exited(i32),
    /// The command did not run, or its streams failed.
    Failed(String),
}

impl CommandResult {
    /// Encodes the result as a `metav1.Status`.
    pub fn status(&self) -> Vec<u8> {
        let status = match self {
            Self::Exited(0) => json!({"metadata": {}, "status": "Success"}),
            Self::Exited(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": exit_message(*code),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(message) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {message}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": message}]},
                "code": 500,
            }),
        };
        status.to_string().into_bytes()
    }

    /// Encodes the result as text, for protocols before version 4. Empty for success.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Exited(0) => Vec::new(),
            Self::Exited(code) => {
                format!("error executing remote command: {}", exit_message(*code)).into_bytes()
            }
            Self::Failed(message) => message.clone().into_bytes(),
        }
    }
}

fn exit_message(code: i32) -> String {
    format!("command terminated with non-zero exit code: {code}")
}

#[cfg(test)]
mod tests;
