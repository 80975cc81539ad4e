//! The checks, one in each file, and the table of their revisions.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod messages;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_baseline;
mod seccomp_restricted;
mod sysctls;
mod windows_host_process;

use super::evaluation::{Check, Revision};
use super::level::Level::{Baseline, Restricted};

/// Checks in the order of upstream's messages: baseline before restricted, then by ID.
pub(super) static CHECKS: &[Check] = &[
    Check {
        id: "appArmorProfile",
        level: Baseline,
        revisions: &[revision_since(0, app_armor_profile::check)],
    },
    Check {
        id: "capabilities_baseline",
        level: Baseline,
        revisions: &[revision_since(0, capabilities_baseline::check)],
    },
    Check {
        id: "hostNamespaces",
        level: Baseline,
        revisions: &[revision_since(0, host_namespaces::check)],
    },
    Check {
        id: "hostPathVolumes",
        level: Baseline,
        revisions: &[revision_since(0, host_path_volumes::check)],
    },
    Check {
        id: "hostPorts",
        level: Baseline,
        revisions: &[revision_since(0, host_ports::check)],
    },
    Check {
        id: "hostProbesAndHostLifecycle",
        level: Baseline,
        revisions: &[revision_since(34, host_probes::check)],
    },
    Check {
        id: "privileged",
        level: Baseline,
        revisions: &[revision_since(0, privileged::check)],
    },
    Check {
        id: "procMount",
        level: Baseline,
        revisions: &[
            revision_since(0, proc_mount::check),
            revision_since(35, proc_mount::check_without_user_namespace),
        ],
    },
    Check {
        id: "seLinuxOptions",
        level: Baseline,
        revisions: &[
            revision_since(0, se_linux_options::check),
            revision_since(31, se_linux_options::check_1_31),
        ],
    },
    Check {
        id: "seccompProfile_baseline",
        level: Baseline,
        revisions: &[
            revision_since(0, seccomp_baseline::check_annotations),
            revision_since(19, seccomp_baseline::check_fields),
        ],
    },
    Check {
        id: "sysctls",
        level: Baseline,
        revisions: &[
            revision_since(0, sysctls::check),
            revision_since(27, sysctls::check_1_27),
            revision_since(29, sysctls::check_1_29),
            revision_since(32, sysctls::check_1_32),
        ],
    },
    Check {
        id: "windowsHostProcess",
        level: Baseline,
        revisions: &[revision_since(0, windows_host_process::check)],
    },
    Check {
        id: "allowPrivilegeEscalation",
        level: Restricted,
        revisions: &[
            revision_since(8, allow_privilege_escalation::check),
            revision_since(25, allow_privilege_escalation::check_linux),
        ],
    },
    Check {
        id: "capabilities_restricted",
        level: Restricted,
        revisions: &[
            revision_with_overrides(22, capabilities_restricted::check, &["capabilities_baseline"]),
            revision_with_overrides(
                25,
                capabilities_restricted::check_linux,
                &["capabilities_baseline"],
            ),
        ],
    },
    Check {
        id: "procMount_restricted",
        level: Restricted,
        revisions: &[revision_with_overrides(35, proc_mount::check, &["procMount"])],
    },
    Check {
        id: "restrictedVolumes",
        level: Restricted,
        revisions: &[revision_with_overrides(
            0,
            restricted_volumes::check,
            &["hostPathVolumes"],
        )],
    },
    Check {
        id: "runAsNonRoot",
        level: Restricted,
        revisions: &[
            revision_since(0, run_as_non_root::check),
            revision_since(35, run_as_non_root::check_without_user_namespace),
        ],
    },
    Check {
        id: "runAsUser",
        level: Restricted,
        revisions: &[
            revision_since(23, run_as_user::check),
            revision_since(35, run_as_user::check_without_user_namespace),
        ],
    },
    Check {
        id: "seccompProfile_restricted",
        level: Restricted,
        revisions: &[
            revision_with_overrides(19, seccomp_restricted::check, &["seccompProfile_baseline"]),
            revision_with_overrides(25, seccomp_restricted::check_linux, &["seccompProfile_baseline"]),
        ],
    },
];

type Run = fn(&super::pod::PodView<'_>) -> Option<super::evaluation::Violation>;

const fn revision_since(since_minor: u64, run: Run) -> Revision {
    revision_with_overrides(since_minor, run, &[])
}

const fn revision_with_overrides(since_minor: u64, run: Run, overrides: &'static [&'static str]) -> Revision {
    Revision {
        since_minor,
        run,
        overrides,
    }
}
