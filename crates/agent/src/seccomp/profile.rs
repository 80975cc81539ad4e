//! Profiles as containers' runtimes read them (`LinuxSeccomp` of the OCI runtime specification), and the filters of them.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use serde::{Deserialize, Serialize};

use super::numbers::number;

/// Largest argument that is compared as 32 bits, for calls whose argument is one.
const DWORD_MAX: u64 = u32::MAX as u64;

/// Reason for which a profile yields no filter.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file is no profile.
    #[error("it is no seccomp profile: {0}")]
    Json(#[from] serde_json::Error),
    /// The filter is longer than the kernel takes, or contradicts itself.
    #[error("no filter can be made of it: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// For calls that no rule is about.
    pub default_action: Action,
    /// The error with [`Action::Errno`]; `EPERM` if not given.
    #[serde(default)]
    pub default_errno_ret: Option<u32>,
    /// The rules.
    #[serde(default)]
    pub syscalls: Vec<Rule>,
}

/// Rule for some system calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The calls' names. Those that this architecture does not have count for nothing, as with runc.
    pub names: Vec<String>,
    /// Action.
    pub action: Action,
    /// The error with [`Action::Errno`]; `EPERM` if not given.
    #[serde(default)]
    pub errno_ret: Option<u32>,
    /// Only if all of this holds of the arguments.
    #[serde(default)]
    pub args: Vec<Condition>,
}

impl Rule {
    /// Allows some calls.
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
    /// The process is sent SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// The thread ends.
    #[serde(rename = "SCMP_ACT_KILL_THREAD", alias = "SCMP_ACT_KILL")]
    KillThread,
    /// The process ends.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
}

/// Condition on one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Index of the argument, from 0.
    pub index: u8,
    /// What it is compared with; with [`Comparison::MaskedEqual`] the mask.
    pub value: u64,
    /// With [`Comparison::MaskedEqual`] what the masked argument is compared with.
    #[serde(default)]
    pub value_two: u64,
    /// How.
    #[serde(rename = "op")]
    pub comparison: Comparison,
}

/// Comparison of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what its name says
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
    /// Reads a file.
    ///
    /// # Errors
    /// [`ProfileError::Json`].
    pub fn parse(json: &[u8]) -> Result<Self, ProfileError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// The filters that together do what the profile says, in the order in which they are installed. One filter knows
    /// one action for calls that it is about; of several, the kernel takes the strictest action.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn filters(&self) -> Result<Vec<BpfProgram>, ProfileError> {
        let mut programs = Vec::new();
        let mut done = vec![SeccompAction::Allow];
        for rule in &self.syscalls {
            let of_rule = action(rule.action, rule.errno_ret);
            if done.contains(&of_rule) {
                continue;
            }
            let rules = self.rules(|other| action(other.action, other.errno_ret) == of_rule)?;
            programs.push(program(rules, SeccompAction::Allow, of_rule.clone())?);
            done.push(of_rule);
        }
        let default = action(self.default_action, self.default_errno_ret);
        if default != SeccompAction::Allow {
            // It leaves what another rule is about to that rule's filter. It is the last, because it may forbid to
            // install one more.
            let rules = self.rules(|_| true)?;
            programs.push(program(rules, default, SeccompAction::Allow)?);
        }
        Ok(programs)
    }

    fn rules(&self, takes: impl Fn(&Rule) -> bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, ProfileError> {
        let mut conditional: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        let mut unconditional = Vec::new();
        for rule in self.syscalls.iter().filter(|rule| takes(rule)) {
            let numbers = rule.names.iter().filter_map(|name| number(name));
            for number in numbers {
                if rule.args.is_empty() {
                    unconditional.push(number);
                    continue;
                }
                let conditions: Result<Vec<_>, _> = rule.args.iter().map(condition).collect();
                let rule = SeccompRule::new(conditions?)?;
                conditional.entry(number).or_default().push(rule);
            }
        }
        // An empty list of rules holds always.
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

fn condition(condition: &Condition) -> Result<SeccompCondition, ProfileError> {
    let comparison = match condition.comparison {
        Comparison::NotEqual => SeccompCmpOp::Ne,
        Comparison::Less => SeccompCmpOp::Lt,
        Comparison::LessOrEqual => SeccompCmpOp::Le,
        Comparison::Equal => SeccompCmpOp::Eq,
        Comparison::GreaterOrEqual => SeccompCmpOp::Ge,
        Comparison::Greater => SeccompCmpOp::Gt,
        Comparison::MaskedEqual => SeccompCmpOp::MaskedEq(condition.value),
    };
    let value = match condition.comparison {
        Comparison::MaskedEqual => condition.value_two,
        _ => condition.value,
    };
    // The kernel looks at 32 bits of most arguments: "not 40" must not hold of 40 with a bit above those.
    let length = match condition.comparison {
        Comparison::NotEqual if value <= DWORD_MAX => SeccompCmpArgLen::Dword,
        _ => SeccompCmpArgLen::Qword,
    };
    Ok(SeccompCondition::new(condition.index, length, comparison, value)?)
}
