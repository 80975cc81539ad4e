//! Audit policy and audit log of the API server, with upstream's names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::{AuditLogSettings, AuditMode, AuditPolicy, AuditSettings, BatchSettings};
use clap::{Args, ValueEnum};

use super::values::duration;
use crate::error::{CommandError, UsageError};

/// Flags of the audit policy and the audit log.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Audit log")]
pub(crate) struct AuditFlags {
    /// Policy file (audit.k8s.io/v1) that selects the recorded requests; needs --audit-log-path
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// File of audit events, one JSON object per line, or - for standard output; needs --audit-policy-file
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Size in megabytes at which the file is rotated
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    audit_log_maxsize: u64,
    /// Days to keep rotated files; 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N")]
    audit_log_maxage: u32,
    /// Number of rotated files to keep; 0 for no limit
    #[arg(long, default_value_t = 10, value_name = "N")]
    audit_log_maxbackup: usize,
    /// Compress rotated files with gzip
    #[arg(long)]
    audit_log_compress: bool,
    /// Format of the events: json
    #[arg(long, value_enum, default_value_t = Format::Json, value_name = "FORMAT", hide_possible_values = true)]
    audit_log_format: Format,
    /// Write of events: blocking (before the response), blocking-strict (the request also fails if its event is not
    /// written) or batch (later)
    #[arg(long, value_enum, default_value_t = Mode::Blocking, value_name = "MODE", hide_possible_values = true)]
    audit_log_mode: Mode,
    /// Maximum number of events that wait to be written; further ones are dropped (mode batch)
    #[arg(long, default_value_t = BatchSettings::default().buffer_size, value_name = "N")]
    audit_log_batch_buffer_size: usize,
    /// Maximum number of events per write (mode batch)
    #[arg(long, default_value_t = BatchSettings::default().max_size, value_name = "N")]
    audit_log_batch_max_size: usize,
    /// Time for which an event waits to be written with others (mode batch)
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    audit_log_batch_max_wait: Duration,
}

/// Values of `--audit-log-format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
}

/// Values of `--audit-log-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    Blocking,
    BlockingStrict,
    Batch,
}

impl AuditFlags {
    /// Returns the settings of the audit log, or `None` without a policy.
    ///
    /// # Errors
    ///
    /// An error if the policy is unusable, or [`UsageError`] if the buffer has no room.
    pub(crate) fn settings(&self) -> Result<Option<AuditSettings>, CommandError> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, &self.audit_log_path) else {
            return Ok(None);
        };
        let Format::Json = self.audit_log_format;
        Ok(Some(AuditSettings {
            policy: read_policy(policy)?,
            log: AuditLogSettings {
                path: (path != Path::new("-")).then(|| path.clone()),
                max_size_megabytes: self.audit_log_maxsize,
                max_age_days: self.audit_log_maxage,
                max_backups: self.audit_log_maxbackup,
                compresses: self.audit_log_compress,
            },
            mode: self.mode()?,
        }))
    }

    fn mode(&self) -> Result<AuditMode, UsageError> {
        match self.audit_log_mode {
            Mode::Blocking => Ok(AuditMode::Blocking),
            Mode::BlockingStrict => Ok(AuditMode::BlockingStrict),
            Mode::Batch => {
                for (flag, number) in [
                    ("buffer size", self.audit_log_batch_buffer_size),
                    ("max batch size", self.audit_log_batch_max_size),
                ] {
                    if number == 0 {
                        let message = format!("invalid audit batch log {flag} 0, must be a positive number");
                        return Err(UsageError(message));
                    }
                }
                Ok(AuditMode::Batch(BatchSettings {
                    buffer_size: self.audit_log_batch_buffer_size,
                    max_size: self.audit_log_batch_max_size,
                    max_wait: self.audit_log_batch_max_wait,
                }))
            }
        }
    }
}

fn read_policy(path: &Path) -> Result<AuditPolicy, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!(
            "failed to read file path {:?}: {error}",
            path.display().to_string()
        )
    })?;
    let policy = AuditPolicy::read(&text);
    policy.map_err(|error| format!("loading audit policy file: {error}: from file {}", path.display()).into())
}
