use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::*;

#[test]
fn command_line_is_consistent() {
    command().debug_assert();
}

#[test]
fn subcommands_are_in_one_group() {
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let listed: BTreeSet<String> = grouped.iter().map(|name| (*name).to_owned()).collect();
    let command = Cli::command();
    let declared = command.get_subcommands().map(|one| one.get_name().to_owned());
    assert_eq!(listed, declared.collect());
    assert_eq!(listed.len(), grouped.len(), "a name is listed twice: {grouped:?}");
}

#[test]
fn hint_names_the_subcommand() {
    let path = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        subcommand_path(&Cli::command(), &arguments)
    };
    assert_eq!(
        path(&["--log-level=off", "token", "create", "--ttl=x"]),
        "portolan token create"
    );
    assert_eq!(path(&["sail"]), "portolan");
}

#[test]
fn error_message_ends_at_the_first_empty_line() {
    let error =
        "error: the following required arguments were not provided:\n  --from <FILE>\n\nUsage: portolan plan";
    let expected = "the following required arguments were not provided: --from <FILE>";
    assert_eq!(one_line(error), expected);
}

#[test]
fn error_message_names_similar_words() {
    for (arguments, tip) in [
        (&["portolan", "upp"][..], "'up'"),
        (&["portolan", "proxy", "--proxymode=nftables"], "'--proxy-mode'"),
    ] {
        let error = command().try_get_matches_from(arguments).expect_err("no command");
        let line = one_line(&error.to_string());
        assert!(line.contains("similar") && line.contains(tip), "{line}");
    }
}

#[test]
fn delete_is_an_alias_of_remove_and_revoke() {
    for arguments in [
        &["portolan", "backend", "delete", "db", "192.0.2.1:5432"][..],
        &["portolan", "token", "delete", "abcdef"],
    ] {
        command().try_get_matches_from(arguments).expect("a command");
    }
}

/// Environment variable that makes [`help_equals_the_golden_files`] write the files.
const UPDATE_GOLDEN: &str = "UPDATE_GOLDEN";
/// Columns of the golden files, as for output to a pipe.
const COLUMNS: usize = 100;

/// Adds the help of a command and of its subcommands, by file name.
fn add_help(command: &mut clap::Command, name: &str, pages: &mut BTreeMap<String, String>) {
    let help = command.render_help().to_string();
    pages.insert(format!("{name}.txt"), format!("{}\n", help.trim_end()));
    for subcommand in command.get_subcommands_mut() {
        if subcommand.get_name() != "help" {
            let name = format!("{name}-{}", subcommand.get_name());
            add_help(subcommand, &name, pages);
        }
    }
}

/// Compares the help of each subcommand with `tests/help`. After a change of the help,
/// `UPDATE_GOLDEN=1 cargo test -p portolan help_equals` writes the files.
#[test]
fn help_equals_the_golden_files() {
    let mut command = command().term_width(COLUMNS);
    command.build();
    let mut pages = BTreeMap::new();
    add_help(&mut command, "portolan", &mut pages);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    if std::env::var_os(UPDATE_GOLDEN).is_some() {
        fs::create_dir_all(&directory).expect("the directory of the golden files");
        for (name, help) in &pages {
            fs::write(directory.join(name), help).expect("a golden file");
        }
    }
    let files = fs::read_dir(&directory).expect("golden files, which UPDATE_GOLDEN=1 writes");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    assert_eq!(names.collect::<BTreeSet<_>>(), pages.keys().cloned().collect());
    for (name, help) in &pages {
        let golden = fs::read_to_string(directory.join(name)).expect("a golden file");
        assert_eq!(*help, golden, "{name} differs; write it with {UPDATE_GOLDEN}=1");
    }
}
