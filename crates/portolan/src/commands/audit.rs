//! Flags that concern the audit log, under upstream's names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::{AuditLogSettings, AuditMode, AuditPolicy, AuditSettings, BatchSettings};
use clap::{Args, ValueEnum};

use super::Failure;
use crate::flags::{BadValue, duration};

/// Audit policy and output.
#[derive(Clone, Debug, Args)]
pub struct AuditFlags {
    /// File that says which requests are recorded: a Policy of audit.k8s.io/v1. Needs --audit-log-path
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// File that audit events are written to, one JSON object a line; - for standard output. Needs --audit-policy-file
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Size in megabytes at which a new file is begun
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    audit_log_maxsize: u64,
    /// Days that old files are kept; 0 for no limit
    #[arg(long, default_value_t = 0, value_name = "N")]
    audit_log_maxage: u32,
    /// Old files that are kept; 0 for no limit
    #[arg(long, default_value_t = 10, value_name = "N")]
    audit_log_maxbackup: usize,
    /// Compress old files with gzip
    #[arg(long)]
    audit_log_compress: bool,
    /// Form of the events; json is the only one
    #[arg(long, value_enum, default_value_t = Format::Json, value_name = "FORMAT", hide_possible_values = true)]
    audit_log_format: Format,
    /// When events are written: blocking, before the answer; blocking-strict, and a request that cannot be recorded is refused;
    /// batch, some time later
    #[arg(long, value_enum, default_value_t = Mode::Blocking, value_name = "MODE", hide_possible_values = true)]
    audit_log_mode: Mode,
    /// Events that wait to be written at most; more are dropped. Only in mode batch
    #[arg(long, default_value_t = BatchSettings::default().buffer_size, value_name = "N")]
    audit_log_batch_buffer_size: usize,
    /// Events that are written in one go at most. Only in mode batch
    #[arg(long, default_value_t = BatchSettings::default().max_size, value_name = "N")]
    audit_log_batch_max_size: usize,
    /// How long an event waits for others to be written with. Only in mode batch
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
    /// What is recorded, and where; `None` without a policy.
    ///
    /// # Errors
    /// The policy cannot be used, or the queue has no room.
    pub fn settings(&self) -> Result<Option<AuditSettings>, Failure> {
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

    fn mode(&self) -> Result<AuditMode, BadValue> {
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
                        return Err(BadValue(message));
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

fn read_policy(path: &Path) -> Result<AuditPolicy, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!(
            "failed to read file path {:?}: {error}",
            path.display().to_string()
        )
    })?;
    let policy = AuditPolicy::read(&text);
    policy.map_err(|error| format!("loading audit policy file: {error}: from file {}", path.display()).into())
}
