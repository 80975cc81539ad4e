//! Seccomp profiles as container runtimes read them (`LinuxSeccomp` of the OCI runtime specification), and their
//! filters.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use serde::{Deserialize, Serialize};

use super::syscall_numbers::number;

/// Largest value that is compared as 32 bits, for arguments of 32 bits.
const DWORD_MAX: u64 = u32::MAX as u64;

/// Bit in the numbers of the calls of the x32 ABI (`__X32_SYSCALL_BIT` of `asm/unistd.h`).
const X32: u32 = 0x4000_0000;

/// Reason why a profile has no filter.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file is not a valid profile.
    #[error("not a seccomp profile: {0}")]
    Json(#[from] serde_json::Error),
    /// The filter is longer than the kernel accepts, or contradicts itself.
    #[error("no filter can be built from it: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Seccomp profile, in the JSON format of the OCI runtime specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Action for calls without a rule.
    pub default_action: Action,
    /// Error number of [`Action::Errno`]; `EPERM` by default.
    #[serde(default)]
    pub default_errno_ret: Option<u32>,
    /// Rules for system calls.
    #[serde(default)]
    pub syscalls: Vec<Rule>,
}

/// Rule for some system calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Names of the calls. Names that this architecture does not have are ignored, as in runc.
    pub names: Vec<String>,
    /// Action for these calls.
    pub action: Action,
    /// Error number of [`Action::Errno`]; `EPERM` by default.
    #[serde(default)]
    pub errno_ret: Option<u32>,
    /// Conditions on the arguments, all of which must hold.
    #[serde(default)]
    pub args: Vec<Condition>,
}

impl Rule {
    /// Returns a rule that allows calls.
    pub fn allow(names: Vec<String>) -> Self {
        Self {
            names,
            action: Action::Allow,
            errno_ret: None,
            args: Vec::new(),
        }
    }
}

/// Action for a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The call is allowed.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// The call is allowed and logged.
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    /// The call fails.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    /// The process receives SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// The kernel kills the thread.
    #[serde(rename = "SCMP_ACT_KILL_THREAD", alias = "SCMP_ACT_KILL")]
    KillThread,
    /// The kernel kills the process.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
}

impl Action {
    /// Returns true if calls with this action are executed.
    fn permits(self) -> bool {
        matches!(self, Self::Allow | Self::Log)
    }
}

/// Condition on one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Index of the argument, from 0.
    pub index: u8,
    /// Operand; the mask of [`Comparison::MaskedEqual`].
    pub value: u64,
    /// Operand of [`Comparison::MaskedEqual`].
    #[serde(default)]
    pub value_two: u64,
    /// Operator that compares the argument with the operand.
    #[serde(rename = "op")]
    pub comparison: Comparison,
}

/// Comparison of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants have the names of the operators")]
pub enum Comparison {
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    #[serde(rename = "SCMP_CMP_LE")]
    LessOrEqual,
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterOrEqual,
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

impl Profile {
    /// Parses a profile.
    ///
    /// # Errors
    /// [`ProfileError::Json`].
    pub fn parse(json: &[u8]) -> Result<Self, ProfileError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// Returns the filters of the profile in the order of their installation. A filter has one action for the calls of
    /// its rules; of several filters, the kernel takes the strictest action.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn filters(&self) -> Result<Vec<BpfProgram>, ProfileError> {
        let mut programs = Vec::new();
        if cfg!(target_arch = "x86_64") && self.default_action.permits() {
            programs.push(without_x32());
        }
        let mut done = vec![SeccompAction::Allow];
        for rule in &self.syscalls {
            let rule_action = action(rule.action, rule.errno_ret);
            if done.contains(&rule_action) {
                continue;
            }
            let rules = self.rules(|other| action(other.action, other.errno_ret) == rule_action)?;
            programs.push(program(rules, SeccompAction::Allow, rule_action.clone())?);
            done.push(rule_action);
        }
        let default = action(self.default_action, self.default_errno_ret);
        if default != SeccompAction::Allow {
            // Leaves the calls of other rules to their filters. It is the last one, because it may forbid to install
            // another.
            let rules = self.rules(|_| true)?;
            programs.push(program(rules, default, SeccompAction::Allow)?);
        }
        Ok(programs)
    }

    /// Returns true if the filters reject a system call regardless of its arguments.
    pub fn denies(&self, call: &str) -> bool {
        let call_rules = self.syscalls.iter();
        let call_rules = call_rules.filter(|rule| rule.names.iter().any(|name| name == call));
        let call_rules: Vec<&Rule> = call_rules.collect();
        let is_allowed = call_rules.iter().any(|rule| rule.action.permits());
        // Of several filters, the kernel takes the strictest action.
        let is_rejected = call_rules
            .iter()
            .any(|rule| !rule.action.permits() && rule.args.is_empty());
        is_rejected || (!is_allowed && !self.default_action.permits())
    }

    fn rules(
        &self,
        selects: impl Fn(&Rule) -> bool,
    ) -> Result<BTreeMap<i64, Vec<SeccompRule>>, ProfileError> {
        let mut conditional: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        let mut unconditional = Vec::new();
        for rule in self.syscalls.iter().filter(|rule| selects(rule)) {
            let numbers = rule.names.iter().filter_map(|name| number(name));
            for number in numbers {
                if rule.args.is_empty() {
                    unconditional.push(number);
                    continue;
                }
                let conditions = rule.args.iter().map(|given| condition(given, rule.action));
                let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
                conditional.entry(number).or_default().push(rule);
            }
        }
        // An empty list of rules always matches.
        conditional.extend(unconditional.into_iter().map(|number| (number, Vec::new())));
        Ok(conditional)
    }
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, ProfileError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture)?;
    Ok(filter.try_into()?)
}

/// Returns a filter for which calls of the x32 ABI do not exist, as in kernels without it. The kernel reports the
/// architecture of 64-bit programs for them, but rules have other numbers for the same calls.
pub(super) fn without_x32() -> BpfProgram {
    let step = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let unknown_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        // The number is the first field of `struct seccomp_data`.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, unknown_call),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn action(action: Action, errno: Option<u32>) -> SeccompAction {
    match action {
        Action::Allow => SeccompAction::Allow,
        Action::Log => SeccompAction::Log,
        Action::Errno => SeccompAction::Errno(errno.unwrap_or(libc::EPERM.cast_unsigned())),
        Action::Trap => SeccompAction::Trap,
        Action::KillThread => SeccompAction::KillThread,
        Action::KillProcess => SeccompAction::KillProcess,
    }
}

/// Returns a condition of a rule with this action.
///
/// The kernel uses 32 bits of most arguments and ignores the others. A program could pass 40 with a higher bit in place of
/// 40. A rule that permits calls therefore requires a match of both the 32 bits and the 64 bits of an argument. For a
/// rule that refuses calls, one of the two matches is enough.
pub(super) fn condition(condition: &Condition, action: Action) -> Result<SeccompCondition, ProfileError> {
    let comparison = match condition.comparison {
        Comparison::NotEqual => SeccompCmpOp::Ne,
        Comparison::Less => SeccompCmpOp::Lt,
        Comparison::LessOrEqual => SeccompCmpOp::Le,
        Comparison::Equal => SeccompCmpOp::Eq,
        Comparison::GreaterOrEqual => SeccompCmpOp::Ge,
        Comparison::Greater => SeccompCmpOp::Gt,
        Comparison::MaskedEqual => SeccompCmpOp::MaskedEq(condition.value),
    };
    let (value, has_32_bits) = match condition.comparison {
        // The mask selects the bits.
        Comparison::MaskedEqual => (condition.value_two, false),
        // With 32 bits, fewer arguments match.
        Comparison::NotEqual | Comparison::Greater | Comparison::GreaterOrEqual => {
            (condition.value, action.permits())
        }
        // With 32 bits, more arguments match.
        Comparison::Equal | Comparison::Less | Comparison::LessOrEqual => {
            (condition.value, !action.permits())
        }
    };
    let length = if has_32_bits && value <= DWORD_MAX {
        SeccompCmpArgLen::Dword
    } else {
        SeccompCmpArgLen::Qword
    };
    Ok(SeccompCondition::new(condition.index, length, comparison, value)?)
}
