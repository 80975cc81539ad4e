//! The debug pages `/statusz` and `/flagz` (HLT-04), which feature gates enable.

use std::ffi::OsString;

use proxy::configuration::{COMPONENT_FLAGZ, COMPONENT_STATUSZ, KubeProxyConfiguration};

/// Returns the pages to serve. `/flagz` lists the flags of a command line, whose first argument is the program.
pub(super) fn pages(
    configuration: &KubeProxyConfiguration,
    command: clap::Command,
    arguments: impl Iterator<Item = OsString>,
) -> proxy::Pages {
    let has_flagz = configuration.has_feature(COMPONENT_FLAGZ);
    proxy::Pages {
        statusz: configuration.has_feature(COMPONENT_STATUSZ),
        flagz: has_flagz.then(|| flag_values(command, arguments).unwrap_or_default()),
    }
}

/// Returns all flags of the subcommand with their values, including defaults.
fn flag_values(
    mut command: clap::Command,
    arguments: impl Iterator<Item = OsString>,
) -> Option<Vec<(String, String)>> {
    let matches = command.try_get_matches_from_mut(arguments).ok()?;
    let (name, matches) = matches.subcommand()?;
    let flags = command.find_subcommand(name)?.get_arguments();
    let values = flags.filter_map(|flag| {
        let values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some((flag.get_long()?.to_owned(), values.join(",")))
    });
    let listed = values.filter(|(name, _)| name != "help" && name != "version");
    Some(listed.collect())
}
